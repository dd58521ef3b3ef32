"""Services are sent to the off-host archive; how far it is, and what is wrong, is recorded where clients see it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from ramet.backends.interface.archive import ARCHIVE_BUSY, ARCHIVE_TAKEN_OVER, ArchiveState
from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.errors import Failed, Unavailable
from ramet.model.archive import gaps_since, gaps_with, is_archived
from ramet.model.service import Service
from ramet.procedures.servers import server_of
from ramet.store import services

_BUDGET_SECONDS = 2.0
_RECORD_EVERY = timedelta(seconds=5)
_WRONG_CLOCK = timedelta(hours=1)  # what the times of base backups may be wrong by
_log = logging.getLogger(__name__)
_discarding = Faults("old archive")


@dataclass
class OffHostArchive:
    """The duty. While the archive cannot be reached it is asked for one service a round, the one that comes next."""

    plane: Plane
    _asked_last: str = ""
    _faults: Faults = field(default_factory=lambda: Faults("archive"))

    def maintain(self) -> None:
        """Send what is new of each archived service that no operation is changing."""
        if self.plane.backend.archive.url() is None:
            return
        due = _archived_services(self.plane)
        for seen in sorted(due, key=lambda one: (one.id <= self._asked_last, one.id)):
            with self._faults.contained(seen.id):
                service = _if_archived(self.plane, seen.id)  # the round takes seconds for each of them
                if service is None:
                    continue
                try:
                    _expect(self.plane, service)
                    _record(self.plane, service, self._maintained(service))
                except Unavailable as error:
                    if error.code == ARCHIVE_BUSY:
                        continue
                    self._asked_last = service.id
                    for each in _archived_services(self.plane):
                        _record(self.plane, each, _unchanged(each, error))
                    return

    def _maintained(self, service: Service) -> ArchiveState:
        try:
            return self.plane.backend.archive.maintain(
                server_of(service), paused=service.paused, timeout_seconds=_BUDGET_SECONDS
            )
        except (Failed, OSError) as error:
            return _unchanged(service, error)


@dataclass
class ArchiveChecks:
    """The duty that reads the archive back, `budget_bytes` a round, one service after the other."""

    plane: Plane
    budget_bytes: int
    _checked_last: str = ""
    _faults: Faults = field(default_factory=lambda: Faults("archive check"))

    def check(self) -> None:
        """Read back what comes next; what is found shows in the problem of a service."""
        if self.plane.backend.archive.url() is None:
            return
        left, known = self.budget_bytes, _archived_services(self.plane)
        for service in sorted(known, key=lambda one: (one.id <= self._checked_last, one.id)):
            if left <= 0:
                return
            with self._faults.contained(service.id):
                try:
                    left -= self.plane.backend.archive.check(server_of(service), left)
                except (Failed, Unavailable) as error:
                    _log.warning("the archive of service %s is not checked: %s", service.id, error)
                    if isinstance(error, Unavailable) and error.code != ARCHIVE_BUSY:
                        return
            self._checked_last = service.id


def discard_old_archives(plane: Plane, window: timedelta, now: Callable[[], datetime]) -> None:
    """Remove what is older than the window of the archive and what no time in it needs."""
    if plane.backend.archive.url() is None:
        return
    for service_id in _in_archive(plane):
        with _discarding.contained(service_id):
            service = _if_at_rest(plane, service_id)  # the round takes long: one may be switched on again since
            if service is None:
                continue
            try:
                oldest = _discard(plane, service, now() - window - _WRONG_CLOCK)
            except (Failed, Unavailable) as error:
                _log.warning("the archive of service %s is not cleaned up: %s", service.id, error)
                is_unreachable = isinstance(error, Unavailable) and error.code != ARCHIVE_BUSY
                if is_unreachable or error.code == ARCHIVE_TAKEN_OVER:
                    return
                continue
            if (oldest, gaps_since(service, oldest)) != (service.archive_from, service.archive_gaps):
                _record_oldest(plane, service.id, oldest)


def _expect(plane: Plane, service: Service) -> None:
    """Record that the archive may have something of a service before it does: what it has is removed in any case."""
    if service.archive_from is None:
        with plane.store.write(durable=False) as tx:
            services.expect_archive(tx, service.id)


def _record_oldest(plane: Plane, service_id: str, oldest: datetime | None) -> None:
    with plane.store.write(durable=False) as tx:
        current = services.get_service(tx, service_id, lock=True)
        if current is not None:
            gaps = services.gaps_column(gaps_since(current, oldest))
            until = current.archived_until if oldest is not None else None
            services.update_service(tx, service_id, archive_from=oldest, archived_until=until, archive_gaps=gaps)


def _discard(plane: Plane, service: Service, before: datetime) -> datetime | None:
    """Remove what is older than `before` of a service; return the time of the oldest base backup that is left.

    None when all is removed. Where no base backup is listed, there may be WAL, and parts of one: that stays known.
    """
    archive, server = plane.backend.archive, server_of(service)
    is_ended = service.deleted_at is not None or (not is_archived(service) and service.archive_from is not None)
    if is_ended and _is_expired(plane, service, before):
        archive.remove(server)
        return None
    archive.discard(server, before)
    return min((base.taken_at for base in archive.holdings(server).base_backups), default=service.archive_from)


def _is_expired(plane: Plane, service: Service, before: datetime) -> bool:
    """Tell whether what the archive has of a service, which sends no more, is of no use for times from `before` on.

    Where no time is known until which it goes, only complete base backups are of use, once it is switched on again.
    """
    ended_at, archive, server = service.archived_until or service.deleted_at, plane.backend.archive, server_of(service)
    if ended_at is not None:
        return ended_at < before
    if archive.is_sending(server):  # a base backup that was begun before may be complete soon
        return False
    return all(base.taken_at < before for base in archive.holdings(server).base_backups)


def _archived_services(plane: Plane) -> list[Service]:
    with plane.store.read() as tx:
        return [one for one in _idle_services(tx) if is_archived(one)]


def _if_archived(plane: Plane, service_id: str) -> Service | None:
    """Return a service as it is now; None where it is not archived any more, or an operation is changing it."""
    with plane.store.read() as tx:
        found = services.get_service(tx, service_id)
    return found if found is not None and _is_due(found) else None


def _in_archive(plane: Plane) -> list[str]:
    """Return the services of which the archive may have something to remove: also deleted and switched off ones.

    It may have WAL of all others where no snapshot is taken, which would remove it.
    """
    has_all = plane.backend.copies.are_needed()
    with plane.store.read() as tx:
        live = [one for one in _idle_services(tx) if has_all or is_archived(one) or one.archive_from is not None]
        return [one.id for one in (*live, *services.deleted_in_archive(tx))]


def _if_at_rest(plane: Plane, service_id: str) -> Service | None:
    """Return a service as it is now; None while an operation is changing it, or copies from its archive."""
    with plane.store.read() as tx:
        found = services.get_service(tx, service_id)
        if found is None or services.has_copies_under_way(tx, service_id):
            return None
    return found if found.deleted_at is not None or _is_idle(found) else None


def _idle_services(tx: sa.Connection) -> list[Service]:
    return [one for one in services.claimed_services(tx) if _is_idle(one)]


def _is_due(service: Service) -> bool:
    return service.deleted_at is None and service.failed_at is None and _is_idle(service) and is_archived(service)


def _is_idle(service: Service) -> bool:
    return service.ready_at is not None and service.activity is None


def _unchanged(service: Service, error: Exception) -> ArchiveState:
    return ArchiveState(service.archived_until, service.archive_base_at, str(error))


def _record(plane: Plane, service: Service, state: ArchiveState) -> None:
    """Record what is known of a service's archive, unless an operation has changed the service since it was read."""
    before, after = service.archived_until, state.archived_until
    is_later = after is not None and (before is None or after - before >= _RECORD_EVERY)
    if state.problem != service.archive_problem:
        if state.problem is not None:
            _log.warning("service %s: %s", service.id, state.problem)
        elif after is not None:
            _log.info("service %s: the off-host archive has caught up, and has all until %s", service.id, after)
    shown = (state.problem, state.base_taken_at, gaps_with(service, state.gaps))
    if is_later or shown != (service.archive_problem, service.archive_base_at, service.archive_gaps):
        with plane.store.write(durable=False) as tx:
            current = services.get_service(tx, service.id, lock=True)
            if current is None or not _is_due(current) or current.paused != service.paused:
                return
            services.update_service(
                tx,
                service.id,
                archived_until=after,
                archive_base_at=state.base_taken_at,
                archive_from=_oldest(current, state),
                archive_gaps=services.gaps_column(gaps_with(current, state.gaps)),
                archive_problem=state.problem,
            )


def _oldest(service: Service, state: ArchiveState) -> datetime | None:
    """Return the time of the oldest base backup of a service. After the loss of one the clean-up finds older ones."""
    is_first = service.archive_base_at is None and state.base_taken_at is not None
    return state.base_taken_at if is_first else service.archive_from or state.base_taken_at
