"""Ramet: PostgreSQL services on your own machines, and forks of them as fast as a server starts."""

__version__ = "0.1.0"
