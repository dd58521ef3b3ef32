"""The store: one database, SQLite or PostgreSQL, opened with its schema up to date."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import sqlalchemy as sa
from psycopg.abc import Buffer
from psycopg.types.string import StrDumperUnknown
from sqlalchemy.pool import NullPool, QueuePool

from ramet.errors import Failed, Unavailable
from ramet.store import journal
from ramet.store.backup import DAMAGED, is_damage, is_full
from ramet.store.flushes import Flushes
from ramet.store.journal import Recorder
from ramet.store.migrate import current_revision, demand_current, upgrade
from ramet.store.silence import (
    CONNECT_SECONDS,
    LOCK_SECONDS,
    Watch,
    bounded_engine,
    is_busy,
    is_ended,
    is_read_only,
    is_silence,
    set_limits,
)
from ramet.store.turns import BUSY_SECONDS, Turns

_COMMON: dict[str, Any] = {
    "hide_parameters": True,  # they contain verifiers
    "json_serializer": lambda value: msgspec.json.encode(value).decode(),
    "json_deserializer": msgspec.json.decode,
}
_UNREACHABLE = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)
_MIGRATION_IDLE_SECONDS = 300.0
_ZERO = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # not behind a backslash that is itself escaped


class Store:
    """Opens transactions. Safe to share between threads.

    `recorders` are called at the end of each transaction that writes, within it.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.recorders: list[Recorder] = []
        self._turns: Turns | None = None
        self._flushes: Flushes | None = None
        self._watch = Watch(self._ask)

    @classmethod
    def open(cls, url: str, *, migrates: bool = True) -> "Store":
        """Open the database at `url` (sqlite:///… or postgresql+psycopg://…) and bring its schema up to date.

        Without `migrates`, raise WrongState if the schema is that of an earlier release, which may be running.
        """
        engine = _sqlite(url) if url.startswith("sqlite") else _postgresql(url)
        store = cls(engine)
        try:
            with _reachable(), _unbounded(url) if store.is_postgresql else nullcontext(engine) as patient:
                if not migrates:
                    demand_current(patient)
                upgrade(patient)
                store._order_writers()
        except BaseException as error:
            engine.dispose()
            if isinstance(error, Unavailable) and error.code == DAMAGED:
                raise _damaged(engine) from error.__cause__
            raise
        return store

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is on PostgreSQL, which several hosts can use."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def write(self, *, durable: bool = True, early: bool = False, patient: bool = False) -> Iterator[sa.Connection]:
        """A transaction that may write; on SQLite it takes the write lock when it begins, so that it never fails later.

        One thread may have only one at a time. Raises Unavailable when the database cannot be reached. One that is
        not `durable` may be lost in a power failure, unless a durable one has followed it, but in no other way.
        What an `early` one has written may be read before it is on disk, for some milliseconds: it is for what nobody
        but the caller relies on, and several of them are flushed at once (`ramet.store.flushes`).
        A `patient` one waits for transactions that a client waits for.
        """
        with self._connected(durable=durable, early=early, patient=patient) as tx:
            made = journal.begin(tx)
            try:
                with tx.begin():
                    yield tx
                    for record in self.recorders:
                        record(tx, made)
            finally:
                journal.end(tx)
        for call in made.after_commit:
            call()

    @contextmanager
    def _connected(self, *, durable: bool, early: bool, patient: bool) -> Iterator[sa.Connection]:
        """Yield a connection to write with; return when what was written and seen is on disk, if that is to be."""
        flushes, seen = self._flushes, None
        if flushes is not None:
            flushes.check()
        turn = nullcontext() if self._turns is None else self._turns.taken(patient)
        with turn, self._reached():
            is_early = durable and early and flushes is not None and flushes.begin()
            options = {"writes": True, "flushes": durable and not is_early}
            with self.engine.connect().execution_options(**options) as connection:
                yield connection
            if flushes is not None:
                seen = flushes.seen()
        if flushes is not None:
            flushes.settle(seen)

    @contextmanager
    def read(self, *, at_one_time: bool = False, settled: bool = False) -> Iterator[sa.Connection]:
        """A transaction that only reads: it waits for no lock. Raises Unavailable as `write` does.

        A `settled` one returns when all that it may have seen is on disk: it is for what is passed on to others.

        With `at_one_time` all its statements see the store as the first one does; on SQLite they do anyway. The
        caller may then take any time between them: who exports the audit may read it page by page.
        """
        is_long = at_one_time and self.is_postgresql
        isolation = {"isolation_level": "REPEATABLE READ"} if is_long else {}
        with self._reached(), self.engine.connect().execution_options(**isolation) as tx, tx.begin():
            if is_long:
                tx.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield tx
        if settled:
            self.settle()

    def settle(self) -> None:
        """Return when all that can be read now is on disk, as far as it was to be durable. Raises Unavailable."""
        if self._flushes is not None:
            self._flushes.settle_all()

    def close(self) -> None:
        """Close every connection."""
        self._watch.end()
        self.engine.dispose()
        if self._turns is not None:
            self._turns.close()
        if self._flushes is not None:
            self._flushes.close()

    def _ask(self) -> None:
        with self.engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise Unavailable at once while the store does not answer, and record when it stops answering."""
        if self._watch.is_silent:
            raise _unreachable()
        with _reachable():
            try:
                yield
            except sa.exc.DBAPIError as error:
                if is_silence(error.orig):
                    self._watch.begin()
                if is_read_only(error.orig):
                    self.engine.dispose()  # after a failover, other connections lead to the new primary
                raise

    def _order_writers(self) -> None:
        """Let the writers of SQLite take turns, by a file beside the database, wherever links lead to it."""
        if not self.is_postgresql:
            with self.engine.connect() as connection:
                query = "SELECT file FROM pragma_database_list WHERE name = 'main'"
                path = str(connection.exec_driver_sql(query).scalar_one())
            self._turns = Turns(Path(f"{path}.turn"))
            self._flushes = Flushes(path, self._turns)


@contextmanager
def peek(url: str) -> Iterator[sa.Connection]:
    """Read a PostgreSQL database before its tables are those of this release. Raises Unavailable."""
    engine = bounded_engine(url, **_COMMON)
    try:
        with _reachable(), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def is_empty(url: str) -> bool:
    """Tell whether a PostgreSQL database has no tables of a store yet. Raises Unavailable."""
    with peek(url) as connection:
        return current_revision(connection) is None


def may_write(tx: sa.Connection) -> bool:
    """Tell whether a transaction is one of `Store.write`."""
    return bool(tx.get_execution_options().get("writes"))


def epoch_seconds(tx: sa.Connection) -> float:
    """Return the seconds since the epoch by the store's own clock: the same for every host that uses it."""
    if tx.dialect.name != "postgresql":
        return time.time()
    return float(tx.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())::float8")) or 0.0)


def locking(query: sa.Select[Any]) -> sa.Select[Any]:
    """Return the query with a row lock where rows can be locked (SQLite's writers wait for each other anyway)."""
    return query.with_for_update(key_share=True)


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (sa.exc.DatabaseError, *_UNREACHABLE) as error:
        cause = getattr(error, "orig", None)
        if is_damage(cause):
            raise Unavailable(DAMAGED, "The store is damaged", "Its operator must restore it from a backup.") from error
        if is_full(cause) or isinstance(cause, psycopg.errors.DiskFull):
            raise Unavailable("STORE_UNAVAILABLE", "The disk of the store is full", "Free space on it.") from error
        if is_read_only(cause):
            raise Unavailable("STORE_UNAVAILABLE", "The store is read-only now", "Try again shortly.") from error
        if is_busy(cause):
            busy = f"The store was busy for {LOCK_SECONDS:g} s"
            raise Unavailable("STORE_UNAVAILABLE", busy, "Try again.") from error
        if not (isinstance(error, _UNREACHABLE) or is_ended(cause)) or _is_mistake(error):
            raise
        raise _unreachable() from error


def _unreachable() -> Unavailable:
    return Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now", "Try again shortly.")


@contextmanager
def _unbounded(url: str) -> Iterator[sa.Engine]:
    """Open an engine for migrations: they may take as long as the tables are large, and wait for those of others."""
    limits = {"connect_timeout": CONNECT_SECONDS}
    engine = sa.create_engine(url, poolclass=NullPool, connect_args=limits, **_COMMON)

    @sa.event.listens_for(engine, "connect")
    def limit(connection: Any, _record: Any) -> None:
        set_limits(connection, idle_seconds=_MIGRATION_IDLE_SECONDS, lock_seconds=0)

    try:
        yield engine
    finally:
        engine.dispose()


def _damaged(engine: sa.Engine) -> Failed:
    path = engine.url.database
    return Failed(
        DAMAGED,
        f"The store {path} is damaged, or is no SQLite database",
        "Restore it from a backup: see docs/backup.md.",
    )


def _is_mistake(error: sa.exc.SQLAlchemyError) -> bool:
    """Tell whether SQLite rejected a statement as invalid: it raises the same class for that as for a full disk."""
    cause = getattr(error, "orig", None)
    return isinstance(cause, sqlite3.Error) and cause.sqlite_errorcode == sqlite3.SQLITE_ERROR


class _Text(StrDumperUnknown):
    """Sends U+FFFD for a character with the code zero, which PostgreSQL has not: who asks for one finds nothing."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


def _json(value: object) -> str:
    """Return a value as JSON, without the character that `_Text` replaces.

    PostgreSQL stores its escape, and refuses then each statement that reads any field of that value.
    """
    return _ZERO.sub("\\1\ufffd", msgspec.json.encode(value).decode())


def _postgresql(url: str) -> sa.Engine:
    engine = bounded_engine(url, **{**_COMMON, "json_serializer": _json})

    @sa.event.listens_for(engine, "connect")
    def configure(connection: psycopg.Connection, _record: Any) -> None:
        connection.adapters.register_dumper(str, _Text)

    return engine


def _sqlite(url: str) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=QueuePool,
        pool_size=20,
        max_overflow=40,
        connect_args={"timeout": BUSY_SECONDS},
        **_COMMON,
    )

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS}000"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        if options.get("writes"):
            # In WAL mode NORMAL leaves the flush to the next FULL one: a power failure loses only the latest ones.
            connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if options.get('flushes', True) else 'NORMAL'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine
