"""Metrics for Prometheus and traces for OpenTelemetry. To remove it, delete it and its lines in app.py."""
