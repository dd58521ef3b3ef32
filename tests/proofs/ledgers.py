"""Numbered rows, one transaction each, and what forks of their service hold."""

from datetime import UTC, datetime

from prove.ground import Ground, Running
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.timestamps import rfc3339


def make_ledger(running: Running) -> None:
    """Make the table."""
    with running.connect() as connection:
        connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")


def append(running: Running, *numbers: int) -> list[datetime]:
    """Append rows; return their commit timestamps, as the server tells."""
    times = []
    with running.connect() as connection:
        for number in numbers:
            connection.execute("INSERT INTO ledger VALUES (%s)", (number,))
            row = connection.execute(
                "SELECT pg_xact_commit_timestamp(xmin) FROM ledger WHERE n = %s", (number,)
            ).fetchone()
            assert row is not None
            assert isinstance(row[0], datetime)
            times.append(row[0].astimezone(UTC))
    return times


def rows(running: Running) -> list[int]:
    """Return the numbers in the ledger."""
    with running.connect() as connection:
        return [int(str(n)) for (n,) in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


def rows_until(running: Running, restore_time: datetime) -> list[int]:
    """Return the numbers whose transactions committed at or before a time, according to the server."""
    query = "SELECT n FROM ledger WHERE pg_xact_commit_timestamp(xmin) <= %s ORDER BY n"
    with running.connect() as connection:
        return [int(str(n)) for (n,) in connection.execute(query, (restore_time,)).fetchall()]


def has_ledger(running: Running) -> bool:
    """Tell whether the table is there."""
    with running.connect() as connection:
        return connection.execute("SELECT to_regclass('ledger') IS NOT NULL").fetchone() == (True,)


def at(restore_time: datetime | str, **fields: str) -> ForkRequest:
    """Return a request for a target time, as a datetime or as a caller writes it."""
    text = restore_time if isinstance(restore_time, str) else rfc3339(restore_time)
    return ForkRequest(ForkStrategy.PITR, target_time=text, **fields)  # type: ignore[arg-type]


def rows_at(ground: Ground, parent: Running, restore_time: datetime | str) -> list[int]:
    """Fork a service to a time, and return the numbers in the fork."""
    fork = ground.fork(parent, at(restore_time))
    held = rows(fork)
    ground.delete(fork)
    return held
