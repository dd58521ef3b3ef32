"""Restore drills on a schedule; one that is overdue is recorded where clients see it."""

import logging
from collections.abc import Set
from datetime import datetime, timedelta

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.ids import new_id
from ramet.model.archive import is_archived
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, shown_status
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339, time_left
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.store import operations, services
from ramet.store.history import RESUMING

EVERY = timedelta(days=1)
_FIRST_AFTER = timedelta(hours=1)
_WORK = frozenset(ProcedureName) - {ProcedureName.PREPARE}  # it may rest for hours
_PAUSES = RESUMING | {ProcedureName.STOP}  # a service that is asleep is drilled
_NEW_DATA = frozenset({ProcedureName.RESTORE, ProcedureName.UPGRADE})
_log = logging.getLogger(__name__)
_faults = Faults("overdue drills")


def submit_due_drill(plane: Plane, every: timedelta = EVERY) -> None:
    """Submit the drill that has been due longest, unless any other work is under way."""
    with plane.change() as tx:
        due = [service for service in services.claimed_services(tx) if _is_due(plane, service, every)]
        if not due or operations.is_busy(tx, _WORK):
            return
        chosen = min(due, key=_last_drill)
        state = DrillState(drill_id=new_id(), is_off_host=_is_turn_of_archive(plane, chosen))
        submit(tx, ProcedureName.DRILL, chosen.id, state)


def record_overdue_drills(plane: Plane, every: timedelta = EVERY) -> None:
    """Record which services were not verified for twice as long as `every`."""
    with plane.store.read() as tx:
        known = services.claimed_services(tx)
    for service in known:
        with _faults.contained(service.id):
            if service.drill_failure is not None and not rolls_forward(plane):
                _record(plane, service, drill_failure=None)  # an earlier drill found it, and no later one can lift it
            if shown_status(service) is Status.READY:
                _record_overdue_archive(plane, service, every)
                _record_overdue(plane, service, every)


def _record_overdue(plane: Plane, service: Service, every: timedelta) -> None:
    if service.drill_failure is not None or not rolls_forward(plane):
        return
    verified_at = service.last_verified_at or service.ready_at or service.created_at
    since = _overdue_since(plane, service, verified_at, 2 * every, _NEW_DATA)
    if since is not None:
        failure = f"No restore has been verified since {rfc3339(since)}."
        _log.warning("service %s: %s", service.id, failure)
        _record(plane, service, drill_failure=failure)


def _record_overdue_archive(plane: Plane, service: Service, every: timedelta) -> None:
    since = service.archive_verified_at or service.archive_base_at
    if since is None or service.archive_drill_failure is not None or not _is_in_archive(plane, service):
        return
    if _overdue_since(plane, service, since, 4 * every) is not None:  # every other drill is from the archive
        failure = f"No restore from the off-host archive has been verified since {rfc3339(since)}."
        _log.warning("service %s: %s", service.id, failure)
        _record(plane, service, archive_drill_failure=failure)


def _record(plane: Plane, service: Service, **columns: str | None) -> None:
    """Record what is known of the drills of a service, unless another one has ended since it was read."""
    with plane.store.write() as tx:
        current = services.get_service(tx, service.id, lock=True)
        if current is not None and _ends(current) == _ends(service):
            services.update_service(tx, service.id, **columns)


def _ends(service: Service) -> tuple[datetime | None, datetime | None]:
    return service.drilled_at, service.archive_drilled_at


def _overdue_since(
    plane: Plane, service: Service, since: datetime, limit: timedelta, begins: Set[ProcedureName] = frozenset()
) -> datetime | None:
    """Return since when nothing of a service was verified, if it has run for `limit` since then; else None.

    What was verified before the last of the procedures `begins` had ended is not its data any more.
    """
    now, stopped, stopped_at = plane.clock(), timedelta(0), None
    if now - since < limit:
        return None
    with plane.store.read() as tx:
        ends = operations.ends_of(tx, service.id, _PAUSES | begins)
    for procedure, ended_at in ends:
        at = max(ended_at or now, since)  # what ended before may be a pause that had begun then
        if procedure in begins:
            since, stopped, stopped_at = at, timedelta(0), None
        elif procedure == ProcedureName.STOP:
            stopped_at = at
        elif stopped_at is not None:  # each of the others resumes a paused service
            stopped, stopped_at = stopped + at - stopped_at, None
    return since if now - since - stopped >= limit else None


def _is_in_archive(plane: Plane, service: Service) -> bool:
    return plane.backend.archive.url() is not None and is_archived(service) and service.archived_until is not None


def _is_turn_of_archive(plane: Plane, service: Service) -> bool:
    """Tell whether the last drill of a service in the off-host archive was one of the local copy."""
    if not _is_in_archive(plane, service):
        return False
    if plane.backend.copies.are_needed():
        return True
    if service.drilled_at is None:
        return False
    return service.archive_drilled_at is None or service.archive_drilled_at < service.drilled_at


def rolls_forward(plane: Plane) -> bool:
    """Tell whether services have snapshots, and WAL after them; else each restore to a time is from base backups."""
    archive, copies = plane.backend.archive, plane.backend.copies
    return not copies.are_needed() and not (archive.is_needed() and archive.url() is None)


def _is_due(plane: Plane, service: Service, every: timedelta) -> bool:
    if not rolls_forward(plane) and not _is_in_archive(plane, service):
        return False  # nothing that is kept of it leads to its newest state
    pause = min(_FIRST_AFTER, every) if service.drilled_at is None else every
    return shown_status(service) is Status.READY and not time_left(_last_drill(service), pause, plane.clock())


def _last_drill(service: Service) -> datetime:
    return service.drilled_at or service.ready_at or service.created_at
