"""Services that fall asleep when no client uses them, and are woken by the next one."""

import logging
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.admission import capacity_of, check_admission, wanted_for, wanted_to_start
from ramet.control.lookup import check_not_restored, claim, find_service, is_being_restored, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import free_ports, reserve_ports
from ramet.errors import Exhausted, Invalid, WrongState
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.sleep import check_sleep_after
from ramet.model.status import READY_OR_PAUSED, Status
from ramet.procedures.servers import server_of
from ramet.procedures.state import Interrupting, SetSleepState
from ramet.store import replica_sets, services

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LastUse:
    """When a client was seen last on a server, in the time that life spans go by, and the mark of its sessions."""

    at: datetime
    mark: str


def set_sleep(plane: Plane, project_id: str, service_id: str, seconds: int | None) -> Service:
    """Change after how long without a client a service falls asleep; None: never.

    Its endpoint goes to another process, or comes back from there: the server restarts for that, and one that is asleep
    is woken.
    """
    check_sleep_after(seconds)
    if seconds is not None:
        plane.backend.endpoints.check()
    free, capacity = free_ports(plane, owner=service_id), capacity_of(plane)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if status_of(service) not in READY_OR_PAUSED or service.activity is not None:
            raise wrong_state(service, "setSleep", READY_OR_PAUSED)
        check_not_restored(tx, service)
        changed = replace(service, sleep_after_seconds=seconds)
        if seconds is not None:
            check_may_sleep(tx, service)
        if (seconds is None) != (service.server_port is None):
            changed = replace(changed, server_port=None if seconds is None else reserve_ports(plane, tx, free)[0])
        columns = {"sleep_after_seconds": changed.sleep_after_seconds, "server_port": changed.server_port}
        services.update_service(tx, service.id, **columns)
        if changed.server_port != service.server_port and (service.asleep or not service.paused):
            if service.asleep:
                check_admission(plane, tx, capacity, project_id, wanted_for([service]))
            before = SetSleepState(seconds_before=service.sleep_after_seconds, port_before=service.server_port)
            claim(plane, tx, service, ProcedureName.SET_SLEEP, before)
        return find_service(plane, tx, project_id, service_id)


def check_may_sleep(tx: sa.Connection, service: Service) -> None:
    """Raise WrongState for a service that is always in use."""
    if service.upstream is not None:
        reason, remedy = f"follows {service.upstream}", "Promote it first, or fork it."
    elif service.pooler_port is not None:
        reason, remedy = "has a pooler", "Remove the pooler first: it has an endpoint of its own, which wakes nothing."
    elif replica_sets.live_sets(tx, service.id):
        reason, remedy = "has read replicas", "Delete the read replica sets first."
    else:
        return
    raise WrongState("CANNOT_SLEEP", f"Service {service.id} {reason}, and cannot fall asleep", remedy)


def check_stays_awake(service: Service, what: str) -> None:
    """Raise WrongState for a service that may fall asleep, and would get what must not."""
    if service.server_port is not None:
        raise WrongState(
            "SERVICE_SLEEPS",
            f"Service {service.id} falls asleep when it is not used, and cannot have {what}",
            "Let it stay awake first: set sleep_after_seconds to null ('ramet service sleep NAME --never').",
        )


def with_server_ports(plane: Plane, tx: sa.Connection, free: list[int], new: list[Service]) -> list[Service]:
    """Return new services, of which those that may sleep have a port for their servers. Raises Invalid."""
    sleeping = [one for one in new if one.sleep_after_seconds is not None]
    if sleeping:
        plane.backend.endpoints.check()
    if any(one.upstream is not None for one in sleeping):
        raise Invalid(
            "CANNOT_SLEEP",
            "A service that follows a database elsewhere is always in use, and cannot fall asleep",
            "Leave sleep_after_seconds out; it can be set after the promotion.",
        )
    reserved = {one.port for one in new}
    ports = iter(reserve_ports(plane, tx, [port for port in free if port not in reserved], len(sleeping)))
    return [one if one.sleep_after_seconds is None else replace(one, server_port=next(ports)) for one in new]


def submit_sleep(plane: Plane, service_id: str, last: LastUse | None = None) -> bool:
    """Submit that a service falls asleep, and record its last use; False when it may not any more."""
    with plane.change() as tx:
        current = services.get_service(tx, service_id, lock=True)
        if current is None or status_of(current) is not Status.READY or services.holders(tx, service_id):
            return False
        if current.sleep_after_seconds is None or _is_needed(tx, service_id):
            return False
        if last is not None:
            _record_use(tx, current, last)
        claim(plane, tx, current, ProcedureName.SLEEP, Interrupting())
        return True


def _record_use(tx: sa.Connection, service: Service, last: LastUse) -> None:
    """Record a use in the life span of a service: nobody can ask its server while it sleeps."""
    span = service.life_span
    if span is None or span.idle_ttl_seconds is None or span.mark == last.mark:
        return
    seen = span.seen_active(max(last.at, span.active_at or last.at), last.mark)
    services.update_service(tx, service.id, life_span=services.life_span_column(seen))


def _is_needed(tx: sa.Connection, service_id: str) -> bool:
    """Tell whether a restore in place or an upgrade is being prepared, which needs the running server at its end."""
    if is_being_restored(tx, service_id):
        return True
    forks = [each for each in services.live_services(tx) if each.origin and each.origin.service_id == service_id]
    return any(each.activity and each.activity.procedure == ProcedureName.TRY_UPGRADE for each in forks)


def wake(plane: Plane, service_id: str) -> bool:
    """Start a service whose clients wait, or tell them why it does not start; False: try again in a moment."""
    capacity = capacity_of(plane)
    try:
        with plane.change() as tx:
            current = services.get_service(tx, service_id, lock=True)
            activity = None if current is None else current.activity
            is_due = current is not None and current.asleep and activity is None
            if current is not None and is_due:
                check_admission(plane, tx, capacity, current.project_id, wanted_to_start(tx, current))
                claim(plane, tx, current, ProcedureName.START, Interrupting())
    except Exhausted as error:
        # Who waits has shown no password yet: what else runs on the host is for the log.
        _log.warning("service %s is not woken: %s", service_id, error)
        reason = "this service sleeps, and its host has no room for one more server now"
        plane.backend.endpoints.refuse(service_id, reason, "Try again later. Ramet's log says what is used up.")
        return True
    if is_due:
        return True
    if current is None or current.deleted_at is not None:
        plane.backend.endpoints.refuse(service_id, f"service {service_id} does not exist any more", "")
    elif current.down_reason is not None:
        hint = "Ramet tries again by itself; its log, and 'ramet service logs', say more."
        plane.backend.endpoints.refuse(
            service_id, f"the server of this service did not start: {current.down_reason}", hint
        )
    elif activity is None and not current.paused:
        plane.backend.endpoints.serve(server_of(current))
    return activity is None or activity.procedure != ProcedureName.SLEEP
