"""Ramet: PostgreSQL services on your own machines, and forks of them as fast as a server starts."""

from importlib.metadata import version

__version__ = version("ramet")
