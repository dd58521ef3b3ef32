"""Forks to a time on an idle service do not contain the WAL between that time and the next commit.

No commit record precedes the effect of such a record: recovery to a target time replays it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from tests.backends.local.borders import commit_across_border
from tests.backends.local.forgeries import forge_ends
from tests.backends.local.forks import append, fork, now, paths_of, rows_of, snapshot

Session = psycopg.Connection[Any]


def _value(connection: Session, query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def _prepare(connection: Session, identifier: str = "late") -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO public.ledger (n) VALUES (99)")
    connection.execute(f"PREPARE TRANSACTION '{identifier}'".encode())


def _create_by_files(connection: Session) -> None:
    connection.execute("CREATE DATABASE late STRATEGY file_copy")


def _create_by_log(connection: Session) -> None:
    connection.execute("CREATE DATABASE late STRATEGY wal_log")


_LAST_VALUE = "SELECT last_value FROM public.numbers"
_DATABASES = "SELECT array_agg(datname || datconnlimit ORDER BY datname) FROM pg_database"


@pytest.mark.parametrize(
    ("act", "query"),
    [
        (lambda c: c.execute("DROP DATABASE early"), _DATABASES),
        (_create_by_files, _DATABASES),
        (_create_by_log, _DATABASES),
        (lambda c: c.execute("SELECT setval('public.numbers', 1)"), _LAST_VALUE),
        (lambda c: c.execute("SELECT nextval('public.numbers') FROM generate_series(1, 100)"), _LAST_VALUE),
        (_prepare, "SELECT count(*) FROM pg_prepared_xacts"),
        (lambda c: c.execute("DROP TABLE public.kept"), "SELECT count(*) FROM public.kept"),
        (lambda c: c.execute("VACUUM (FULL) public.kept"), "SELECT count(*) FROM public.kept"),
    ],
    ids=["drop database", "create database by files", "create database by log", "setval", "nextval", "prepare",
         "drop table", "vacuum full"],
)  # fmt: skip
def test_transactions_after_the_target_are_not_in_the_fork(
    backend: LocalBackend, parent: Server, act: Callable[[Session], None], query: str
) -> None:
    with connections.connect(paths_of(backend, parent)) as connection:
        connection.execute("CREATE DATABASE early")
        connection.execute("CREATE SEQUENCE public.numbers")
        connection.execute("SELECT setval('public.numbers', 1000)")
        connection.execute("CREATE TABLE public.kept AS SELECT generate_series(1, 100)")
        snapshot_id, _ = snapshot(backend, parent)
        append(backend, parent, 1)
        before = _value(connection, query)
        restore_time = now()
        act(connection)
        assert query == "SELECT count(*) FROM public.kept" or _value(connection, query) != before
    forked = fork(backend, parent, snapshot_id, restore_time)
    with connections.connect(paths_of(backend, forked.server)) as connection:
        assert _value(connection, query) == before
    assert rows_of(backend, forked.server) == [1]
    with connections.connect(paths_of(backend, forked.server), "early") as connection:
        assert _value(connection, "SELECT 1") == 1


@pytest.mark.parametrize("identifier", ["late", "two\nlines"])
def test_a_transaction_prepared_before_the_target_is_in_the_fork(
    backend: LocalBackend, parent: Server, identifier: str
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    with connections.connect(paths_of(backend, parent)) as connection:
        _prepare(connection, identifier)
    forked = fork(backend, parent, snapshot_id, now())
    with connections.connect(paths_of(backend, forked.server)) as connection:
        assert _value(connection, "SELECT count(*) FROM pg_prepared_xacts") == 1
    for server in (forked.server, parent):
        with connections.connect(paths_of(backend, server)) as connection:
            connection.execute(f"ROLLBACK PREPARED '{identifier}'".encode())


@pytest.mark.parametrize("day", ["2000-01-01", "2000-99-99"])
def test_identifiers_that_look_like_records_do_not_change_a_fork(
    backend: LocalBackend, parent: Server, day: str
) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    restore_time = now()
    append(backend, parent, 2, 3)
    with connections.connect(paths_of(backend, parent)) as connection:
        forge_ends(connection, day)
    assert rows_of(backend, fork(backend, parent, snapshot_id, restore_time).server) == [1]


def test_targets_around_a_commit_that_crosses_two_segments(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    append(backend, parent, 1)
    before = now()
    commit_across_border(backend, parent)
    after = now()
    append(backend, parent, 2)
    assert rows_of(backend, fork(backend, parent, snapshot_id, before).server) == [1]
    assert len(rows_of(backend, fork(backend, parent, snapshot_id, after).server)) == 3001
    exactly = _commit_time(backend, parent, 1_000_000)
    assert len(rows_of(backend, fork(backend, parent, snapshot_id, exactly).server)) == 3001


def test_a_long_commit_at_the_border_is_named_in_the_report(backend: LocalBackend, parent: Server) -> None:
    snapshot_id, _ = snapshot(backend, parent)
    (last,) = append(backend, parent, 1)
    crossing = commit_across_border(backend, parent)
    append(backend, parent, 2)
    cut = fork(backend, parent, snapshot_id, last).capture.facts["cut"]
    assert cut["first_excluded"]["xid"] == crossing


def _commit_time(backend: LocalBackend, server: Server, number: int) -> datetime:
    with connections.connect(paths_of(backend, server)) as connection:
        query = f"SELECT max(pg_xact_commit_timestamp(xmin)) FROM public.ledger WHERE n >= {number}"
        found = _value(connection, query)
    assert isinstance(found, datetime)
    return found
