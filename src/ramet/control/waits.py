"""Requests that wait until the operation that a service's status shows is over. They hold no thread and no connection.

One query serves all that wait in a process. It is made when a transaction of this process has changed a service, and
every few hundredths of a second for what other processes change.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.control.services import get_service
from ramet.errors import Unavailable
from ramet.model.service import Service, shown_status
from ramet.model.status import PASSING
from ramet.store import services
from ramet.store.journal import Journal

LONGEST_SECONDS = 30
_LOOK_SECONDS = 0.05


@dataclass
class Waits:
    """All that wait in one process. But for `record` and `close` it belongs to the event loop."""

    plane: Plane
    _waiting: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    _looking: asyncio.Task[None] | None = None
    _bell: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _is_closed: bool = False

    def record(self, _tx: sa.Connection, journal: Journal) -> None:
        """Look at once when a transaction is committed that changes services which somebody waits for."""
        changed = {service_id for service_id, _ in journal.changed} | {ended.subject for ended in journal.ended}
        if changed:
            journal.after_commit.append(partial(self._ring_for, changed))

    def close(self) -> None:
        """Answer all that wait now, so that the server can stop; nobody waits any more."""
        self._is_closed = True
        self._ring()

    async def settled(self, plane: Plane, project_id: str, service_id: str, seconds: float) -> Service:
        """Return a service when its status does not pass by itself, or as it is after so many seconds.

        It is returned at once when the project holds too many connections. Raises NotFound, also when the service is
        deleted during the wait.
        """
        deadline = time.monotonic() + seconds
        while True:
            service = get_service(plane, project_id, service_id)
            left = deadline - time.monotonic()
            if shown_status(service) not in PASSING or left <= 0 or self._is_closed:
                return service
            if not plane.held.acquire(project_id):
                return service
            try:
                await self._wait(service_id, left)
            finally:
                plane.held.release(project_id)

    async def _wait(self, service_id: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        self._waiting.setdefault(service_id, set()).add(over)
        if self._looking is None or self._looking.done():
            self._loop, self._bell = loop, asyncio.Event()
            self._looking = loop.create_task(self._look(self._bell))
        await asyncio.wait([over], timeout=seconds)
        others = self._waiting.get(service_id, set())
        others.discard(over)
        if not others:
            self._waiting.pop(service_id, None)

    async def _look(self, bell: asyncio.Event) -> None:
        while self._waiting:
            bell.clear()
            for service_id in self._over():
                for waiting in self._waiting.pop(service_id):
                    waiting.set_result(None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(bell.wait(), _LOOK_SECONDS)

    def _over(self) -> set[str]:
        """Return those that need not wait any more; all of them when that is not known."""
        waiting = set(self._waiting)
        if self._is_closed:
            return waiting
        try:
            with self.plane.store.read() as tx:
                return waiting - services.claimed_among(tx, waiting)
        except Unavailable:
            return waiting  # each finds the store unavailable itself, and says so

    def _ring_for(self, changed: set[str]) -> None:
        if any(service_id in self._waiting for service_id in changed):
            self._ring()

    def _ring(self) -> None:
        loop, bell = self._loop, self._bell
        if loop is not None and bell is not None and self._waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(bell.set)
