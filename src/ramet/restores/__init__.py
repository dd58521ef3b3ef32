"""Restores in place: a service gets earlier data, or that of another service, at its own endpoint."""
