"""Reading the ends of transactions out of real WAL."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.base import Server
from ramet.backends.local import sql
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.waldump import transaction_ends
from ramet.errors import Failed
from tests.backends.local.forks import append, paths_of
from tests.backends.local.segments import overwrite


def _live_segment(backend: LocalBackend, server: Server) -> Path:
    paths = paths_of(backend, server)
    with sql.connect(paths) as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_flush_lsn())").fetchone()
    assert row is not None
    return paths.data / "pg_wal" / str(row[0])


def test_commits_and_aborts_are_read_with_the_time_that_the_server_gives_them(
    backend: LocalBackend, parent: Server
) -> None:
    committed = append(backend, parent, 1, 2)
    with sql.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (3)")
        connection.execute("ROLLBACK")
    append(backend, parent, 4)
    ends = transaction_ends(_program(backend), _live_segment(backend, parent))
    last = ends[-4:]
    assert [end.committed for end in last] == [True, True, False, True]
    assert [end.time for end in last[:2]] == committed


def test_prepared_transactions_end_when_they_are_decided(backend: LocalBackend, parent: Server) -> None:
    before = datetime.now(UTC)
    with sql.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'one'")
        connection.execute("COMMIT PREPARED 'one'")
    end = transaction_ends(_program(backend), _live_segment(backend, parent))[-1]
    assert end.committed
    assert before <= end.time <= datetime.now(UTC)


def test_nothing_is_read_beyond_a_damaged_record(backend: LocalBackend, parent: Server, tmp_path: Path) -> None:
    append(backend, parent, *range(50))
    live = _live_segment(backend, parent)
    damaged = tmp_path / live.name
    damaged.write_bytes(live.read_bytes())
    ends = transaction_ends(_program(backend), damaged)
    place = int(ends[-10].lsn.split("/")[1], 16) % 2**24
    overwrite(damaged, place + 20, b"\xff\xff\xff\xff")
    assert transaction_ends(_program(backend), damaged) == ends[:-10]


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no_such_program is missing"):
        transaction_ends(str(tmp_path / "no_such_program"), tmp_path / "000000010000000000000001")


def _program(backend: LocalBackend) -> str:
    return backend.servers.installations.default.program("pg_waldump")
