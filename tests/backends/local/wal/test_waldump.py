"""Reading the ends of transactions out of real WAL."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.restore.recovery_target import WalReader
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value
from ramet.backends.local.wal.control_file import read_control_data
from ramet.backends.local.wal.locate import WalSource, live_and_archived
from ramet.backends.local.wal.segment import SEGMENT_BYTES, segment_named
from ramet.backends.local.wal.waldump import (
    Stretch,
    TransactionEnd,
    ends_with_shutdown,
    secret_zone,
    stretch_of,
    transaction_ends,
)
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from tests.backends.local.borders import commit_across_border
from tests.backends.local.forks import append, paths_of
from tests.backends.local.segments import overwrite


def _live_segment(backend: LocalBackend, server: Server) -> Path:
    paths = paths_of(backend, server)
    with connections.connect(paths) as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_flush_lsn())").fetchone()
    assert row is not None
    return paths.data / "pg_wal" / str(row[0])


def test_commits_and_aborts_are_read_with_the_time_that_the_server_gives_them(
    backend: LocalBackend, parent: Server
) -> None:
    committed = append(backend, parent, 1, 2)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (3)")
        connection.execute("ROLLBACK")
    append(backend, parent, 4)
    ends = _ends(backend, parent)
    last = ends[-4:]
    assert [end.committed for end in last] == [True, True, False, True]
    assert [end.time for end in last[:2]] == committed


def test_prepared_transactions_end_when_they_are_decided(backend: LocalBackend, parent: Server) -> None:
    before = datetime.now(UTC)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'one'")
        connection.execute("COMMIT PREPARED 'one'")
    end = _ends(backend, parent)[-1]
    assert end.committed
    assert before <= end.time <= datetime.now(UTC)


def test_a_replicated_transaction_has_the_time_of_its_origin_too(backend: LocalBackend, parent: Server) -> None:
    before = datetime.now(UTC)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("SELECT pg_replication_origin_create('elsewhere')")
        connection.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        connection.execute("SELECT pg_replication_origin_xact_setup('0/10', '2020-02-02 02:02:02.02+00')")
        connection.execute("COMMIT")
    end = _ends(backend, parent)[-1]
    assert before <= end.time <= datetime.now(UTC)
    assert end.origin_time == datetime(2020, 2, 2, 2, 2, 2, 20000, tzinfo=UTC)


def test_nothing_is_read_beyond_a_damaged_record(backend: LocalBackend, parent: Server, tmp_path: Path) -> None:
    append(backend, parent, *range(50))
    ends = _ends(backend, parent)
    live = _live_segment(backend, parent)
    damaged = tmp_path / live.name
    damaged.write_bytes(live.read_bytes())
    overwrite(damaged, lsn_number(ends[-10].lsn) % SEGMENT_BYTES + 20, b"\xff\xff\xff\xff")
    read = _read(backend, damaged, lsn_number(ends[-1].end_lsn))
    assert read.ends == ends[:-10]
    assert read.fault is not None
    assert lsn_number(read.fault[0]) == lsn_number(ends[-10].lsn)


def test_reaching_the_requested_end_is_no_fault(backend: LocalBackend, parent: Server) -> None:
    append(backend, parent, 1, 2)
    ends = _ends(backend, parent)
    read = _read(backend, _live_segment(backend, parent), lsn_number(ends[-1].end_lsn))
    assert (read.ends, read.fault) == (ends, None)


def test_a_prepared_transaction_has_a_time_whatever_its_identifier_says(backend: LocalBackend, parent: Server) -> None:
    before = datetime.now(UTC)
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'x: 2020-01-01 00:00:00.000000 UTC; desc: COMMIT'")
        prepared = _ends(backend, parent)[-1]
        connection.execute("ROLLBACK PREPARED 'x: 2020-01-01 00:00:00.000000 UTC; desc: COMMIT'")
    assert not prepared.committed
    assert before <= prepared.time <= datetime.now(UTC)


def _line(description: str) -> str:
    """Return what looks like the next line of pg_waldump, but for its end."""
    return f"x\nrmgr: Transaction len (rec/tot):     34/    34, tx:          1, lsn: 1/1, prev 0/1, desc: {description}"


@pytest.mark.parametrize(
    "identifier",
    [
        "two\nlines",
        "a carriage return\r",
        _line("ABORT 2000-01-01 00:00:00.000000 UTC"),
        _line("COMMIT 2000-99-99 00:00:00.000000 UTC"),
        _line("PREPARE gid x: 2000-01-01 00:00:00.000000 UTC")[2:],
        # The time of the record completes these lines.
        _line("COMMIT_PREPARED 7"),
        _line("PREPARE gid x"),
    ],
)
def test_no_identifier_of_a_prepared_transaction_is_taken_for_a_record(
    backend: LocalBackend, parent: Server, identifier: str
) -> None:
    before = datetime.now(UTC)
    quoted = identifier.replace("'", "''")
    with connections.connect(paths_of(backend, parent)) as connection:
        append(backend, parent, 1)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO public.ledger (n) VALUES (2)")
        connection.execute(f"PREPARE TRANSACTION '{quoted}'".encode())
        connection.execute(f"ROLLBACK PREPARED '{quoted}'".encode())
    append(backend, parent, 3)
    ends = _ends(backend, parent)[-4:]
    assert [end.committed for end in ends] == [True, False, False, True]
    assert ends[1].xid in (0, ends[2].xid)
    assert [lsn_number(end.lsn) for end in ends] == sorted(lsn_number(end.lsn) for end in ends)
    assert all(before <= end.time <= datetime.now(UTC) for end in ends)
    assert "1/1" not in [end.lsn for end in ends]


def test_a_time_of_an_origin_in_an_impossible_year_is_not_read() -> None:
    zone = secret_zone()
    line = _line(f"COMMIT 2026-01-01 00:00:00.000000 {zone[1:-2]}; origin: node 1, lsn 0/10, at ")[2:]
    (end,) = stretch_of(f"{line}294276-12-31 23:59:59.999999 {zone[1:-2]}\n", zone, None, 0, 1).ends
    assert end.time == datetime(2026, 1, 1, tzinfo=UTC)
    assert end.origin_time is None


def test_a_pg_waldump_that_does_not_show_the_zone_is_not_believed() -> None:
    with pytest.raises(RuntimeError, match="did not show times in the zone"):
        stretch_of(_line("COMMIT 2026-01-01 00:00:00.000000 UTC\n")[2:], secret_zone(), None, 0, 1)


def test_only_the_checkpoint_of_a_shutdown_ends_wal_in_order(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    forged = "\nrmgr: XLOG        len (rec/tot):    114/   114, tx:          0, lsn: 0/1, prev 0/1, desc: "
    with connections.connect(paths) as connection:
        for act in (
            f"pg_logical_emit_message(false, E'{forged}CHECKPOINT_SHUTDOWN ', '')",
            "pg_create_restore_point(E'\nrmgr: XLOG len (rec/tot): 1/1, desc: CHECKPOINT_SHUTDOWN ')",
        ):
            found = connection.execute(f"SELECT {act}::text".encode()).fetchone()
            assert found is not None
            append(backend, parent, lsn_number(found[0]) % SEGMENT_BYTES)  # it flushes the WAL
            assert not ends_with_shutdown(_program(backend), paths.data / "pg_wal", 1, found[0])
    backend.servers.stop(parent)
    end = read_control_data(backend.instances.installations.default, paths.data).end_lsn
    assert ends_with_shutdown(_program(backend), paths.data / "pg_wal", 1, end)


def test_a_commit_record_that_crosses_the_border_of_two_segments_is_read(backend: LocalBackend, parent: Server) -> None:
    crossing = commit_across_border(backend, parent)
    paths = paths_of(backend, parent)
    live = _live_segment(backend, parent)
    segment = segment_named(live.name)
    assert segment is not None
    with connections.connect(paths) as connection:
        flushed = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert flushed is not None
    ends = transaction_ends(
        _program(backend), live.parent, 1, segment.start - SEGMENT_BYTES, lsn_number(flushed[0])
    ).ends
    (found,) = [end for end in ends if end.xid == crossing]
    assert lsn_number(found.lsn) < segment.start < lsn_number(found.end_lsn)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no_such_program is missing"):
        transaction_ends(str(tmp_path / "no_such_program"), tmp_path, 1, SEGMENT_BYTES, 2 * SEGMENT_BYTES)


def _program(backend: LocalBackend) -> str:
    return backend.instances.installations.default.program("pg_waldump")


def _emit(backend: LocalBackend, server: Server, size_bytes: int, *, switches: bool = False) -> None:
    """Write one record of so many bytes to the WAL, and then switch the segment."""
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("SELECT pg_logical_emit_message(false, 'long', repeat('x', %s))", (size_bytes,))
        if switches:
            connection.execute("SELECT pg_switch_wal()")


def test_wal_that_is_read_some_segments_at_a_time_has_the_same_ends(backend: LocalBackend, parent: Server) -> None:
    """Records may be longer than what is read at a time, and begin in one part and end in the next."""
    paths = paths_of(backend, parent)
    with connections.connect(paths) as connection:
        start = lsn_number(str(value(connection, "SELECT pg_current_wal_insert_lsn()::text")))
    _emit(backend, parent, 5 * SEGMENT_BYTES)
    append(backend, parent, 1, 2)
    for first in range(1, 6):
        commit_across_border(backend, parent, first * 1_000_000)
    _emit(backend, parent, 2 * SEGMENT_BYTES, switches=True)
    _emit(backend, parent, 5 * SEGMENT_BYTES)
    append(backend, parent, 3)
    with connections.connect(paths) as connection:
        end = lsn_number(str(value(connection, "SELECT pg_current_wal_flush_lsn()::text")))
        identifier = value(connection, "SELECT system_identifier FROM pg_control_system()")
    source = WalSource(backend.pool.driver, live_and_archived(paths), identifier)
    reader = WalReader(source, _program(backend))
    ends = list(reader.stream(1, start, end))
    assert ends == reader.ends(1, start, end)
    assert [one.committed for one in ends] == [True] * len(ends)
    assert len(ends) >= 8
    assert end - start > 16 * SEGMENT_BYTES


def _ends(backend: LocalBackend, parent: Server) -> list[TransactionEnd]:
    """Return the ends of transactions in the live segment of a server."""
    return _read(backend, _live_segment(backend, parent)).ends


def _read(backend: LocalBackend, path: Path, end_lsn: int | None = None) -> Stretch:
    segment = segment_named(path.name)
    assert segment is not None
    return transaction_ends(_program(backend), path.parent, segment.timeline, segment.start, end_lsn or segment.end)
