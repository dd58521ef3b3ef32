"""What a tenant can write into the WAL that looks like the output of pg_waldump."""

from typing import Any

import psycopg


def forge_ends(connection: psycopg.Connection[Any], day: str = "2000-01-01") -> None:
    """Prepare transactions whose identifiers look like transactions that were aborted on a day, and roll them back."""
    found = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert found is not None
    forged = f"rmgr: Transaction len (rec/tot): 1/1, tx: 1, lsn: {found[0]}, prev 0/1, desc: ABORT {day}"
    identifiers = [f"{number}\n{forged} 00:00:00.000000 UTC" for number in range(2)]
    for identifier in identifiers:
        connection.execute("BEGIN")
        connection.execute(f"PREPARE TRANSACTION '{identifier}'".encode())
    for identifier in identifiers:
        connection.execute(f"ROLLBACK PREPARED '{identifier}'".encode())
