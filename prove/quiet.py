"""Forks to a time on a service without other commits: WAL after the target must not be replayed.

Each trial notes the state of the service, then does one thing that changes it without a transaction's end before the
effect, or with a commit record that crosses two WAL segments, and forks to a time between. The fork must hold exactly
what was noted.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from prove.ground import Ground, Running
from prove.results import Trial
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.timestamps import rfc3339

Session = psycopg.Connection[tuple[object, ...]]

_SEGMENT_BYTES = 16 * 1024**2
# 3,000 subtransactions make a commit record of some 12 kB.
_HALF_A_LONG_COMMIT = 6000
_STATE = {
    "databases": "SELECT array_agg(datname || datconnlimit ORDER BY datname) FROM pg_database",
    "a sequence": "SELECT last_value FROM numbers",
    "prepared transactions": "SELECT array_agg(gid) FROM pg_prepared_xacts",
    "rows": "SELECT count(*), sum(n) FROM ledger",
    "tables": "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
}


def _prepare(session: Session) -> None:
    session.execute("BEGIN")
    session.execute("INSERT INTO ledger VALUES (-1)")
    session.execute("PREPARE TRANSACTION 'late'")


def _commit_across_segments(session: Session) -> None:
    session.execute("BEGIN")
    session.execute(
        "DO $$ BEGIN FOR n IN 1..3000 LOOP BEGIN INSERT INTO ledger VALUES (-n);"
        " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$"
    )
    while (left := _left_of_segment(session)) > _HALF_A_LONG_COMMIT:
        length = max(1, min(1_000_000, left - _HALF_A_LONG_COMMIT + 1000))
        session.execute("SELECT pg_logical_emit_message(false, 'prove', repeat('x', %s))", (length,))
    session.execute("COMMIT")


def _left_of_segment(session: Session) -> int:
    row = session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    return _SEGMENT_BYTES - int(str(row[0] if row else 0)) % _SEGMENT_BYTES


def _run(statement: str) -> Callable[[Session], None]:
    def act(session: Session) -> None:
        session.execute(statement.encode())

    return act


ACTS: dict[str, Callable[[Session], None]] = {
    "drop database": _run("DROP DATABASE early"),
    "create database by files": _run("CREATE DATABASE late STRATEGY file_copy"),
    "create database by log": _run("CREATE DATABASE late STRATEGY wal_log"),
    "setval": _run("SELECT setval('numbers', 1)"),
    "nextval": _run("SELECT nextval('numbers') FROM generate_series(1, 100)"),
    "prepare transaction": _prepare,
    "drop table": _run("DROP TABLE kept"),
    "truncate unlogged": _run("TRUNCATE scratch"),
    "commit across segments": _commit_across_segments,
}


@dataclass
class Quiet:
    """A separate service for these trials."""

    ground: Ground
    running: Running
    trials: int = 0

    def trial(self, name: str, choose: random.Random) -> Trial:
        """Run one trial."""
        self.trials += 1
        with self.running.connect() as session:
            self._set_up(session, choose)
            before = _state(session)
            restore_time = datetime.now(UTC)
            ACTS[name](session)
        try:
            fork = self.ground.fork(self.running, ForkRequest(ForkStrategy.PITR, target_time=rfc3339(restore_time)))
            faults = _differences(before, fork)
            self.ground.delete(fork)
        finally:
            self._clean_up()
        return Trial(f"quiet: {name}", fork.seconds, 0, 0, tuple(faults))

    def _set_up(self, session: Session, choose: random.Random) -> None:
        session.execute("CREATE TABLE ledger (n bigint)")
        session.execute("CREATE TABLE kept AS SELECT generate_series(1, 100)")
        session.execute("CREATE UNLOGGED TABLE scratch (n int)")
        session.execute("CREATE SEQUENCE numbers")
        session.execute("CREATE DATABASE early")
        session.execute("SELECT setval('numbers', %s)", (choose.randrange(10, 10_000),))
        session.execute("INSERT INTO ledger VALUES (%s)", (choose.randrange(1_000_000),))

    def _clean_up(self) -> None:
        with self.running.connect() as session:
            if session.execute("SELECT 1 FROM pg_prepared_xacts").fetchone():
                session.execute("ROLLBACK PREPARED 'late'")
            for name in ("early", "late"):
                session.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            session.execute("DROP TABLE IF EXISTS ledger, kept, scratch")
            session.execute("DROP SEQUENCE numbers")


def _state(session: Session) -> dict[str, object]:
    return {what: session.execute(query.encode()).fetchone() for what, query in _STATE.items()}


def _differences(before: dict[str, object], fork: Running) -> list[str]:
    with fork.connect() as session:
        found = _state(session)
    faults = [f"{what}: {found[what]}, not {before[what]}" for what in before if found[what] != before[what]]
    try:
        with fork.connect("early") as session:
            session.execute("SELECT 1")
    except psycopg.Error as error:
        faults.append(f"a database that the fork should have cannot be used: {error}")
    return faults
