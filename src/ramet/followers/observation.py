"""Observing services that follow databases elsewhere: how far behind they are is recorded where clients see it.

A standby that cannot catch up any more is copied again: the attempts are bounded, with growing pauses.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta

from msgspec.structs import replace

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.control.subjects import serving_services, should_serve
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, is_standby
from ramet.model.source_copies import SourceCopies, begun, in_words, is_due, observed, under_way
from ramet.model.upstream import Following, lost_wal
from ramet.operations.procedure import NoState
from ramet.procedures.servers import server_of
from ramet.procedures.spec import submit
from ramet.store import services

_RECORD_EVERY = timedelta(seconds=5)
_SOURCES_AT_ONCE = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observing:
    """The duties: one for standbys, which ask only servers here, and one for subscriptions, which ask their sources."""

    plane: Plane
    _faults: Faults = field(default_factory=lambda: Faults("followers"))

    def observe_standbys(self) -> None:
        """Observe each standby that serves; record what changed, and how far behind it is every few seconds."""
        for service in self._followers():
            if is_standby(service):
                self._tend(service)

    def observe_subscriptions(self) -> None:
        """Observe each subscription, several at once: one whose source does not answer delays no other for long."""
        due = [one for one in self._followers() if not is_standby(one) and self._is_due(one)]
        with ThreadPoolExecutor(_SOURCES_AT_ONCE, "subscriptions") as threads:
            for under_way in [threads.submit(copy_context().run, self._tend, one) for one in due]:
                under_way.result()

    def _followers(self) -> list[Service]:
        known = serving_services(self.plane.store, during=ProcedureName.COPY_AGAIN)
        return [service for service in known if service.upstream is not None and not service.half_promoted]

    def _tend(self, service: Service) -> None:
        with self._faults.contained(service.id):
            found = self._observed(service)
            if found is not None and _is_news(service, found):
                if service.activity is None:
                    self._record(service, found)
                else:
                    self._record_lag(service, found, service.activity.operation_id)

    def _is_due(self, service: Service) -> bool:
        """Tell whether to observe a subscription now: a session in its source is opened for that."""
        seen = service.following
        return seen is None or abs(self.plane.clock() - seen.observed_at) >= _RECORD_EVERY

    def _observed(self, service: Service) -> Following | None:
        if is_standby(service):
            return _as_known(self.plane.backend.followers.observe(server_of(service)), service)
        state = self.plane.backend.subscriptions.observe(server_of(service))
        return Following(observed_at=self.plane.clock(), lag_bytes=state.lag_bytes, problem=state.problem)

    def _record_lag(self, service: Service, found: Following, operation_id: str) -> None:
        """Record how far behind a standby is while an operation copies its source again, which says the rest."""
        with self.plane.store.write(durable=False) as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or current.activity is None or current.following is None:
                return
            if current.activity.operation_id == operation_id:
                known = current.following
                seen = replace(
                    found,
                    problem=known.problem,
                    copies=known.copies,
                    needs_copy=known.needs_copy,
                    still_receives=known.still_receives,
                )
                services.record_following(tx, service.id, seen)

    def _record(self, service: Service, found: Following) -> None:
        before = None if service.following is None else service.following.problem or ""
        if found.problem is not None and not (before or "").startswith(found.problem):
            _log.warning("service %s: %s", service.id, found.problem)
        with self.plane.store.write(durable=False) as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or not should_serve(current) or current.upstream is None or current.half_promoted:
                return
            seen = with_copies(found, None if current.following is None else current.following.copies)
            is_copied = seen.copies is not None and seen.needs_copy and is_due(seen.copies, found.observed_at)
            if seen.copies is not None and is_copied:
                copies = begun(seen.copies)
                seen = replace(seen, copies=copies, problem=f"{found.problem} {under_way(copies)}")
                operation_id = submit(tx, ProcedureName.COPY_AGAIN, service.id, NoState())
                services.update_service(tx, service.id, operation_id=operation_id)
            services.record_following(tx, service.id, seen)
        if is_copied:
            _log.warning("service %s: %s", service.id, seen.problem)
            self.plane.wake()


def _as_known(found: Following | None, service: Service) -> Following | None:
    """Return an observation of a service that may have diverged: it can stream again, and is wrong all the same."""
    known = service.following
    if found is None or known is None or service.upstream is None or not known.has_diverged:
        return found
    problem = found.problem or lost_wal(service.upstream)
    return replace(found, has_diverged=True, needs_copy=True, problem=problem, still_receives=False)


def with_copies(found: Following, known: SourceCopies | None) -> Following:
    """Return an observation with the attempts to copy the source again, and with what happens next in its problem."""
    copies = observed(known, is_needed=found.needs_copy, now=found.observed_at)
    if copies is None or not found.needs_copy:
        return replace(found, copies=copies)
    return replace(found, copies=copies, problem=f"{found.problem} {in_words(copies)}")


def _is_news(service: Service, found: Following) -> bool:
    known = service.following
    if known is None or abs(found.observed_at - known.observed_at) >= _RECORD_EVERY:
        return True
    if found.receives_nothing and found.replayed_lsn != known.replayed_lsn:
        return True  # whoever has stopped the source waits until all of it is here
    if service.activity is not None:
        return False
    return (
        known.problem != found.problem if found.problem is None else not (known.problem or "").startswith(found.problem)
    )
