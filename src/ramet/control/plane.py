"""The context of the control plane: what every verb in this package works over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import sqlalchemy as sa

from ramet import acting
from ramet.backends.interface.backend import Backend
from ramet.control.placement import Placement
from ramet.model.restore_window import RestoreSettings
from ramet.store.database import Store

_DEFAULTS = RestoreSettings()


def utc_now() -> datetime:
    """Return the time, aware and in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Plane:
    """Store, backend and settings of one process. Safe to share between threads.

    `root_key` is the secret that the passwords of repeated requests are derived from. `wake` is called after an
    operation was submitted. `restore` holds for services without restore settings.
    """

    store: Store
    backend: Backend
    placement: Placement
    root_key: bytes = field(repr=False)
    wake: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] = utc_now
    restore: RestoreSettings = _DEFAULTS

    @contextmanager
    def change(self) -> Iterator[sa.Connection]:
        """Yield a transaction that submits an operation, and wake the worker after the commit."""
        with self.store.write() as tx:
            yield tx
        self.wake()

    def record(self, outcome: str) -> None:
        """Let the current act be recorded with an outcome, in a transaction of its own.

        "started" is for what takes effect outside the store: whatever happens then, it is known that it was begun.
        """
        if (act := acting.current()) is not None:
            act.outcome = outcome
            try:
                with self.store.write():
                    pass
            finally:
                act.outcome = "accepted"
