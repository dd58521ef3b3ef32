"""PgBouncer beside a server."""
