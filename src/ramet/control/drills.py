"""Restore drills on a schedule, and the archives that they depend on: what is wrong is noted where clients see it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ramet.backends.interface.backend import Backend
from ramet.ids import new_id
from ramet.model.fork import shown
from ramet.model.moments import time_left
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.operations.procedure import submit
from ramet.procedures.registry import FIRST_STEPS
from ramet.store import operations, services
from ramet.store.database import Store

_FIRST_AFTER = timedelta(hours=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Drills:
    """The duties. A service is drilled `every` so often; two of those without a proof are overdue."""

    store: Store
    backend: Backend
    wake: Callable[[], None]
    clock: Callable[[], datetime]
    every: timedelta = timedelta(days=1)

    def submit_due(self) -> None:
        """Submit the drill that has been due longest, unless any work is under way."""
        with self.store.write() as tx:
            due = [service for service in services.all_live_services(tx) if self._is_due(service)]
            if not due or operations.is_busy(tx, besides=()):
                return
            chosen = min(due, key=_last)
            submit(tx, "drill", FIRST_STEPS["drill"], chosen.id, {"drill_id": new_id()})
        self.wake()

    def watch(self) -> None:
        """Tend each archive, and note which ones fall behind and which services were not proven for too long."""
        with self.store.read() as tx:
            known = [service for service in services.all_live_services(tx) if status_of(service) is Status.READY]
        for service in known:
            delay = self.backend.servers.tend_archive(service.id)
            if delay != service.archive_delay:
                self._note(service, archive_delay=delay)
            if service.drill_failure is None and (overdue := self._overdue(service)) is not None:
                self._note(service, drill_failure=overdue)

    def _is_due(self, service: Service) -> bool:
        pause = min(_FIRST_AFTER, self.every) if service.drilled_at is None else self.every
        return status_of(service) is Status.READY and not time_left(_last(service), pause, self.clock())

    def _overdue(self, service: Service) -> str | None:
        since = service.last_verified_at or service.ready_at or service.created_at
        if self.clock() - since < 2 * self.every:
            return None
        return f"No restore has been proven since {shown(since)}."

    def _note(self, service: Service, **columns: str | None) -> None:
        for sentence in columns.values():
            if sentence is not None:
                _log.warning("service %s: %s", service.id, sentence)
        with self.store.write() as tx:
            services.update_service(tx, service.id, **columns)


def _last(service: Service) -> datetime:
    return service.drilled_at or service.ready_at or service.created_at
