"""Commits whose record begins in one WAL segment and ends in the next."""

from typing import Any

import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from ramet.backends.local.wal.segment import SEGMENT_BYTES
from tests.backends.local.forks import paths_of

# So many subtransactions make a commit record of some 12 kB.
_SUBTRANSACTIONS = 3000
_HALF_OF_IT = 6000


def commit_across_border(backend: LocalBackend, server: Server, first: int = 1_000_000) -> int:
    """Commit one transaction with rows from `first` on, whose record crosses the border of two segments.

    Returns the number of the transaction.
    """
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("BEGIN")
        row = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
        assert row is not None
        connection.execute(
            f"DO $$ BEGIN FOR n IN {first}..{first + _SUBTRANSACTIONS - 1} LOOP"
            " BEGIN INSERT INTO public.ledger (n) VALUES (n);"
            " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
        )
        _fill_segment(connection)
        connection.execute("COMMIT")
    return int(row[0])


def _fill_segment(connection: psycopg.Connection[Any]) -> None:
    """Write WAL until less is left of the segment than half a long commit record."""
    while True:
        found = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
        assert found is not None
        left = SEGMENT_BYTES - found[0] % SEGMENT_BYTES
        if left <= _HALF_OF_IT:
            return
        connection.execute(
            "SELECT pg_logical_emit_message(false, 'fill', repeat('x', %s))", (max(1, min(1_000_000, left - 5000)),)
        )
