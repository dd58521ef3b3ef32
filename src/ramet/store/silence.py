"""Time limits for a PostgreSQL store. While it does not answer, requests are refused at once instead of waiting.

A frozen server keeps its connections, and its kernel acknowledges all packets: only a time limit of the client
detects that. A client that vanished keeps its locks: only a time limit of the server ends its transaction.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import sqlalchemy as sa

CONNECT_SECONDS = 5
PING_SECONDS = 5.0
STATEMENT_SECONDS = 15.0
LOCK_SECONDS = 12.0
"""Shorter than the limit of a statement: who waits for a lock is not to be taken for a server that does not answer."""
IDLE_SECONDS = 30.0
_CHECK_SECONDS = 5
_POOL_SECONDS = 10.0
_PAUSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class Silent(psycopg.OperationalError):
    """The server did not answer in time."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that waits for the server for at most `patience_seconds`, and is closed after that."""

    patience_seconds: float = STATEMENT_SECONDS

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server. Raises Silent when the time limit is exceeded."""
        seconds = self.patience_seconds if timeout is None else timeout
        deadline = time.monotonic() + seconds
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError as error:
            if timeout is not None or time.monotonic() < deadline:
                raise
            self.pgconn.finish()
            raise Silent(f"the server did not answer within {seconds:g} s") from error

    def ping(self) -> None:
        """Check that the server answers, with a shorter time limit. Raises OperationalError."""
        before, self.patience_seconds = self.autocommit, PING_SECONDS
        try:
            self.autocommit = True  # one message instead of three
            self.execute("SELECT 1")
            self.autocommit = before
        finally:
            self.patience_seconds = STATEMENT_SECONDS


def bounded_engine(url: str, **options: Any) -> sa.Engine:
    """Return an engine whose connections have time limits, and are checked before each use."""
    arguments = {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": int(STATEMENT_SECONDS * 1000)}
    # More than threads of HTTP: its event loop reads the store, too, and must not wait for transactions in these.
    engine = sa.create_engine(
        url, pool_size=10, max_overflow=50, pool_timeout=_POOL_SECONDS, connect_args=arguments, **options
    )

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, positional: Any, named: Any) -> BoundedConnection:
        return BoundedConnection.connect(*positional, **named)

    @sa.event.listens_for(engine, "connect")
    def limit(connection: Any, _record: Any) -> None:
        set_limits(connection, idle_seconds=IDLE_SECONDS, lock_seconds=LOCK_SECONDS)

    @sa.event.listens_for(engine, "checkout")
    def check(connection: Any, _record: Any, _proxy: Any) -> None:
        try:
            connection.ping()
        except Silent:
            raise
        except psycopg.Error as error:
            raise sa.exc.InvalidatePoolError from error

    return engine


def set_limits(connection: psycopg.Connection[Any], *, idle_seconds: float, lock_seconds: float) -> None:
    """Let the server end a transaction whose client sends nothing, and waits for locks; 0 is no limit.

    They are set after connecting: poolers refuse startup parameters that they do not know.
    """
    limits = {"idle_in_transaction_session_timeout": idle_seconds, "lock_timeout": lock_seconds}
    connection.autocommit = True  # a SET that is rolled back has no effect
    for name, seconds in limits.items():
        connection.execute(f"SET {name} = '{round(seconds * 1000)}ms'")
    with suppress(psycopg.ProgrammingError, psycopg.DataError):  # PostgreSQL 13, and Windows, do not have it
        connection.execute(f"SET client_connection_check_interval = '{_CHECK_SECONDS}s'")
    connection.autocommit = False


def is_silence(error: BaseException | None) -> bool:
    """Tell whether an error says that the server did not answer in time."""
    return isinstance(error, Silent | psycopg.errors.ConnectionTimeout)


def is_busy(error: BaseException | None) -> bool:
    """Tell whether an error says that another transaction kept a lock for too long."""
    return isinstance(error, psycopg.errors.LockNotAvailable)


def is_ended(error: BaseException | None) -> bool:
    """Tell whether an error says that the server ended the transaction, as its client sent nothing for too long."""
    return isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout)


def is_read_only(error: BaseException | None) -> bool:
    """Tell whether an error says that the server takes no changes: it is a standby, or was made read-only."""
    return isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


class Watch:
    """Knows whether the store is silent, and asks it in a separate thread until it answers again."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._silent = threading.Event()
        self._ended = threading.Event()

    @property
    def is_silent(self) -> bool:
        """Whether the last attempt to reach the store exceeded its time limit."""
        return self._silent.is_set()

    def begin(self) -> None:
        """Record that the store is silent."""
        with self._lock:
            if self._silent.is_set() or self._ended.is_set():
                return
            self._silent.set()
        _log.warning("the store does not answer; requests are refused until it does")
        try:
            threading.Thread(target=self._wait_for_answer, name="store-watch", daemon=True).start()
        except RuntimeError:  # the host has no thread left; the next request that finds the store silent tries again
            self._silent.clear()
            _log.exception("the store cannot be watched; requests go on")

    def end(self) -> None:
        """Stop asking."""
        self._ended.set()

    def _wait_for_answer(self) -> None:
        while not self._ended.is_set():
            try:
                self._ask()
            except (sa.exc.SQLAlchemyError, psycopg.Error):
                self._ended.wait(_PAUSE_SECONDS)
            except Exception:  # noqa: BLE001 - the edge of a thread: no other thread would ask again
                _log.exception("the store could not be asked; it is asked again")
                self._ended.wait(_PAUSE_SECONDS)
            else:
                self._silent.clear()
                _log.warning("the store answers again")
                return
