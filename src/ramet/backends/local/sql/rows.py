"""Read one row, or one value of it, over a connection."""

from typing import Any

from ramet.backends.local.sql.connections import Connection


def row(connection: Connection, query: str, *parameters: Any) -> tuple[Any, ...]:
    """Return the only row of a query that always has one."""
    found = connection.execute(query.encode(), parameters or None).fetchone()
    if found is None:
        raise AssertionError(f"BUG: no row from {query}")
    return found


def value(connection: Connection, query: str, *parameters: Any) -> Any:
    """Return the first value of the only row of a query."""
    return row(connection, query, *parameters)[0]
