"""Services whose life span ends are announced, and then deleted, with the reason in their history.

The end is that of the time to trust (`ramet.control.duties.clock`): a clock that jumps forward ends nothing. A service
is deleted only when that was announced early enough, also where Ramet was down when the announcement was due. Whatever
is decided here is checked again in the transaction that records it: a user may extend the service at the same time.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.services import submit_deletion
from ramet.control.subjects import servers_of
from ramet.model.life_span import LifeSpan
from ramet.model.service import Service, is_being_deleted, status_of
from ramet.model.status import Status
from ramet.store import replica_sets, services

_LOOKS_PER_SPAN = 20
_LONGEST_PAUSE_SECONDS = 60.0
_log = logging.getLogger(__name__)


@dataclass
class LifeSpans:
    """The duty. It remembers when it looked for sessions on which service last."""

    plane: Plane
    now: Callable[[], datetime]
    _looked_at: dict[str, float] = field(default_factory=dict)
    _faults: Faults = field(default_factory=lambda: Faults("life spans"))

    def tend(self) -> None:
        """Look for sessions where idleness counts; announce what ends soon, and delete what has ended."""
        with self.plane.store.read() as tx:
            known = services.with_life_span(tx)
        self._looked_at = {one.id: self._looked_at[one.id] for one in known if one.id in self._looked_at}
        if not known:
            return
        now = self.now()
        for service in known:
            if not service.protected and service.ready_at is not None and not is_being_deleted(service):
                with self._faults.contained(service.id):
                    self._tend_one(service, now)
        self.plane.wake()

    def _tend_one(self, service: Service, now: datetime) -> None:
        span = service.life_span
        if span is None:
            raise AssertionError("BUG: a service without a life span")
        is_near = span.is_due_for_announcement(now) or span.is_over(now)
        if span.idle_ttl_seconds is not None and (is_near or self._is_look_due(service.id, span.idle_ttl_seconds)):
            self._looked_at[service.id] = time.monotonic()
            span = self._with_activity(service, span, now)
        if span.is_over(now):
            self._delete(service.id, now)
        elif span.is_due_for_announcement(now):
            self._announce(service.id, now)

    def _is_look_due(self, service_id: str, idle_ttl_seconds: int) -> bool:
        pause = min(_LONGEST_PAUSE_SECONDS, idle_ttl_seconds / _LOOKS_PER_SPAN)
        return time.monotonic() - self._looked_at.get(service_id, -pause) >= pause

    def _with_activity(self, service: Service, span: LifeSpan, now: datetime) -> LifeSpan:
        """Record that a service is in use; return its span as it is then."""
        count, mark = self._sessions(service.id)
        if count == 0 and mark == span.mark and span.active_at is not None:
            return span
        with self.plane.store.write(durable=False) as tx:
            current = self._current(tx, service.id)
            if current is None or current.life_span is None or current.life_span.idle_ttl_seconds is None:
                return LifeSpan()
            seen = current.life_span.seen_active(now, mark)
            _record(tx, current, seen)
        return seen

    def _sessions(self, service_id: str) -> tuple[int, str | None]:
        """Return how many clients a service and its read replicas have, and a mark that changes with each of them.

        One that does not serve, because it is paused or something is done with it, counts as in use.
        """
        with self.plane.store.read() as tx:
            service = services.get_service(tx, service_id)  # the round takes seconds: it may be awake by now
            sets = [each.id for each in replica_sets.live_sets(tx, service_id)]
            servers = [server for subject in (service_id, *sets) for server in servers_of(tx, subject)]
        if service is None:
            return 1, None
        if service.asleep and status_of(service) is Status.PAUSED and service.life_span is not None:
            return 0, service.life_span.mark
        if status_of(service) is not Status.READY:
            return 1, None
        found = [self.plane.backend.poolers.sessions(server) for server in servers]
        seen = [one for one in found if one is not None]
        if len(seen) < len(found):
            return 1, None
        return sum(one.count for one in seen), ", ".join(one.mark for one in seen)

    def _announce(self, service_id: str, now: datetime) -> None:
        with self.plane.store.write() as tx:
            current = self._current(tx, service_id)
            if current is None or current.life_span is None or not current.life_span.is_due_for_announcement(now):
                return
            span = replace(current.life_span, announced_at=now)
            _record(tx, current, span)
        _log.warning("service %s (%s): %s", current.id, current.name, span.warning)

    def _delete(self, service_id: str, now: datetime) -> None:
        with self.plane.store.write() as tx:
            current = self._current(tx, service_id)
            if current is None or current.life_span is None or not current.life_span.is_over(now):
                return
            reason = current.life_span.reason
            submit_deletion(self.plane, tx, current, reason)
        _log.warning("service %s (%s) is deleted: %s", current.id, current.name, reason)

    def _current(self, tx: sa.Connection, service_id: str) -> Service | None:
        """Return a service and lock its row; None when its life span may not end it any more."""
        found = services.get_service(tx, service_id, lock=True)
        is_gone = found is None or found.deleted_at is not None or found.failed_at is not None
        return None if is_gone or found is None or found.protected or is_being_deleted(found) else found


def _record(tx: sa.Connection, service: Service, span: LifeSpan) -> None:
    services.update_service(tx, service.id, life_span=services.life_span_column(span))
