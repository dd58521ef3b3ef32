"""Stores on SQLite and on PostgreSQL."""

from tests.stores import postgresql_server, postgresql_url, store, url

__all__ = ["postgresql_server", "postgresql_url", "store", "url"]
