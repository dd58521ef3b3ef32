"""Receives notifications of operations that other processes submit (PostgreSQL: LISTEN and NOTIFY)."""

import logging
import threading
from collections.abc import Callable

import psycopg
import sqlalchemy as sa

from ramet.store.database import Store
from ramet.store.operations import CHANNEL
from ramet.store.silence import CONNECT_SECONDS, BoundedConnection

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.5


class Listener:
    """Calls `wake` whenever an operation is submitted or canceled. The worker polls too, should notifications fail."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen_until_stopped, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen, in a separate thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, and return when the connection is closed."""
        self._stopping.set()
        self._thread.join()

    def _listen_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, sa.exc.SQLAlchemyError) as error:
                reason = type(error).__name__  # its text could have a part of the URL, and so of the password
                _log.info("new operations are found by polling until the store can be reached again (%s)", reason)
                self._stopping.wait(_POLL_SECONDS)

    def _listen(self) -> None:
        engine = self._store.engine
        _, address = engine.dialect.create_connect_args(engine.url)
        options = {"autocommit": True, "connect_timeout": CONNECT_SECONDS}
        with BoundedConnection.connect(**{**address, **options}) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self._wake()
            while not self._stopping.is_set():
                for _ in connection.notifies(timeout=_POLL_SECONDS, stop_after=1):
                    self._wake()
