"""Tells the worker of another process of new work over a store of SQLite: by a byte in a FIFO beside its file."""

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable
from pathlib import Path

from ramet.store.database import Store

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
_MOST_BYTES = 4096


class FifoListener:
    """Calls `wake` whenever another process has rung; of several that listen, one is woken. All of them poll too."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen, in a separate thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, and return when nothing is open any more."""
        self._stopping.set()
        ring(self._store)
        self._thread.join()

    def _listen(self) -> None:
        try:
            descriptor = _open(_path_of(self._store))
        except OSError as error:
            _log.warning("operations of other processes are found by polling: %s", error)
            return
        try:
            self._wake()  # for what was submitted before
            while not self._stopping.is_set():
                if select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
                    with contextlib.suppress(BlockingIOError):  # another listener has read it
                        os.read(descriptor, _MOST_BYTES)
                        self._wake()
        finally:
            os.close(descriptor)


def ring(store: Store) -> None:
    """Tell a worker of another process on this machine, if there is one, that there is new work."""
    with contextlib.suppress(OSError):  # nobody listens, or so much is unread that somebody wakes anyway
        descriptor = os.open(_path_of(store), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, b"\0")
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    if not path.is_fifo():  # a file would be readable all the time
        raise FileExistsError(f"{path} is no FIFO")
    # To write, too: so that the FIFO has no end when the last one that rings closes it.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def _path_of(store: Store) -> Path:
    """Return the FIFO of a store of SQLite."""
    return Path(store.engine.url.database or "").with_suffix(".fifo")
