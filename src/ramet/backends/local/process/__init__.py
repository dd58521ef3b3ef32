"""Processes of this host: servers and their helpers, started, found again and stopped, and their log files."""
