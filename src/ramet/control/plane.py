"""The context of the control plane: what every verb in this package works over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from ramet import acting
from ramet.backends.interface.backend import Backend
from ramet.control.placement import Placement
from ramet.control.slots import Slots
from ramet.model.keys import ApiKey
from ramet.model.restore_window import RestoreSettings
from ramet.model.service import Service
from ramet.store.database import Store

_DEFAULTS = RestoreSettings()


def utc_now() -> datetime:
    """Return the time, aware and in UTC."""
    return datetime.now(UTC)


class Yielded(NamedTuple):
    """How many servers give way to others, and the memory that they might have come to need."""

    servers: int
    memory_mbs: int


def nobody_gives_way(_tx: sa.Connection, _servers: int, _memory_mbs: int) -> Yielded:
    """Return that there is nothing to give up."""
    return Yielded(0, 0)


@dataclass(frozen=True)
class Plane:
    """Store, backend and settings of one process. Safe to share between threads.

    `root_key` is the secret that the passwords of repeated requests are derived from. `wake` is called after an
    operation was submitted. `restore` holds for services without restore settings. `caller` is the key on whose behalf
    the verbs work; None: Ramet itself. `give_way` is asked in a transaction for which the host lacks room for so many
    servers, or so much memory; it returns what others have given up for that. With `sees_unclaimed` services that are
    nobody's yet exist, too. `standby_sources` are the hosts that may be followed as a standby; None: any.
    `examinations` are those of sources, for which requests wait. `held` are the connections of HTTP that streams, and
    requests that wait for an operation, hold.
    """

    store: Store
    backend: Backend
    placement: Placement
    root_key: bytes = field(repr=False)
    wake: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] = utc_now
    restore: RestoreSettings = _DEFAULTS
    caller: ApiKey | None = None
    give_way: Callable[[sa.Connection, int, int], Yielded] = nobody_gives_way
    sees_unclaimed: bool = False
    standby_sources: tuple[str, ...] | None = None
    examinations: Slots = field(default_factory=lambda: Slots(8, 3), repr=False)
    held: Slots = field(default_factory=lambda: Slots(1000), repr=False)

    def on_behalf_of(self, key: ApiKey | None) -> "Plane":
        """Return the context for the requests of a key."""
        return replace(self, caller=key)

    @property
    def only_made_by(self) -> str | None:
        """The public key whose services are the only ones that the caller sees; None: it sees all."""
        return self.caller.public_key if self.caller is not None and self.caller.sees_own_only else None

    def hides(self, service: Service) -> bool:
        """Tell whether a service does not exist for the caller."""
        if service.unclaimed:
            return not self.sees_unclaimed
        return self.only_made_by is not None and service.made_by != self.only_made_by

    @contextmanager
    def change(self, *, early: bool = False) -> Iterator[sa.Connection]:
        """Yield a transaction that submits an operation, and wake the worker after the commit."""
        with self.store.write(early=early) as tx:
            yield tx
        self.wake()

    def record(self, outcome: str, change: Callable[[sa.Connection], None] | None = None) -> None:
        """Let the current act be recorded with an outcome, in a transaction of its own, which makes a change.

        "started" is for what takes effect outside the store: whatever happens then, it is known that it was begun.
        """
        act = acting.current() or acting.Act()
        act.outcome = outcome
        try:
            with self.store.write() as tx:
                if change is not None:
                    change(tx)
        finally:
            act.outcome = "accepted"
