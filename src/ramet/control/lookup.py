"""Finding the project or service that a verb is about, and claiming it for an operation."""

from itertools import chain, count
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ramet.control.plane import Plane
from ramet.errors import NotFound, Unavailable, WrongState
from ramet.ids import is_id
from ramet.model.names import suffixed
from ramet.model.procedures import ProcedureName
from ramet.model.project import Project
from ramet.model.service import Origin, Service, as_service, is_falling_asleep, is_standby, is_visible, status_of
from ramet.model.status import READY_OR_PAUSED, Status
from ramet.procedures.spec import submit
from ramet.store import operations, projects, replica_sets, services

CHANGEABLE = (*READY_OR_PAUSED, Status.UNSTABLE)


def find_project(tx: sa.Connection, project_id: str, *, lock: bool = False) -> Project:
    """Return a project. Raises NotFound."""
    found = projects.get_project(tx, project_id, lock=lock)
    if found is None:
        raise NotFound("PROJECT_NOT_FOUND", "no project with that id exists", f"project_id {project_id[:64]!r}")
    return found


def find_service(plane: Plane, tx: sa.Connection, project_id: str, service_id: str, *, lock: bool = False) -> Service:
    """Return a service of the project that clients may see. Raises NotFound."""
    found = visible_service(plane, tx, project_id, service_id, lock=lock)
    if found is None:
        replica_set = set_as_service(plane, tx, project_id, service_id)
        raise no_service(service_id, None if replica_set is None else replica_set.origin)
    return found


def read_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Return a service as `find_service` does, in a transaction of its own. Raises NotFound."""
    with plane.store.read() as tx:
        return find_service(plane, tx, project_id, service_id)


def changeable_service(plane: Plane, tx: sa.Connection, project_id: str, service_id: str, verb: str) -> Service:
    """Return a service, and lock its row, for a change that needs no operation. Raises NotFound, and WrongState."""
    service = find_service(plane, tx, project_id, service_id, lock=True)
    if service.failed_at is not None or status_of(service) is Status.DELETING:
        raise wrong_state(service, verb, CHANGEABLE)
    return service


def set_columns(plane: Plane, project_id: str, service_id: str, verb: str, **columns: Any) -> Service:
    """Change what needs no operation, and return the service as it is then. Raises NotFound, and WrongState."""
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, verb)
        services.update_service(tx, service.id, **columns)
        return find_service(plane, tx, project_id, service_id)


def visible_service(
    plane: Plane, tx: sa.Connection, project_id: str, service_id: str, *, lock: bool = False
) -> Service | None:
    """Return a service of the project with its read replica sets, or None when the caller cannot see it."""
    service = services.get_service(tx, service_id, lock=lock) if is_id(service_id) else None
    if service is None or service.project_id != project_id or not is_visible(service, plane.clock()):
        return None
    if plane.hides(service):
        return None
    found = replica_sets.list_of_service(tx, service.id, plane.clock())
    return replace(service, replica_sets=tuple(found)) if found else service


def set_as_service(plane: Plane, tx: sa.Connection, project_id: str, set_id: str) -> Service | None:
    """Return a read replica set of the project as a service, or None when there is no such set."""
    found = replica_sets.get_set(tx, set_id) if is_id(set_id) else None
    if found is None or found.project_id != project_id or not is_visible(found, plane.clock()):
        return None
    parent = services.get_service(tx, found.service_id)
    return None if parent is None or plane.hides(parent) else as_service(found, parent)


def no_service(service_id: str, parent: Origin | None = None) -> NotFound:
    """Return the error for an id that no service has; with `parent`, it is the id of a read replica set."""
    details = f"service_id {service_id[:64]!r}"
    if parent is not None:
        details += f" is a read replica set: see /services/{parent.service_id}/replicaSets/{service_id}"
    return NotFound("SERVICE_NOT_FOUND", "no service with that id exists", details)


def claim(
    plane: Plane,
    tx: sa.Connection,
    service: Service,
    procedure: ProcedureName,
    state: Struct,
    held: str | None = None,
) -> Service:
    """Submit an operation that claims the service, and return the service as it is then.

    The operation holds the service with the id `held` until it releases it.
    """
    operation_id = submit(tx, procedure, service.id, state)
    services.update_service(tx, service.id, operation_id=operation_id)
    if held is not None:
        services.add_hold(tx, held, operation_id)
    return find_service(plane, tx, service.project_id, service.id)


def unused_name(plane: Plane, tx: sa.Connection, service: Service, why: str) -> str:
    """Return a name for what was of a service until now, with the time, that no service of the project has."""
    taken = {one.name for one in services.live_services(tx) if one.project_id == service.project_id}
    suffix = f"-{why}-{plane.clock():%Y%m%d-%H%M%S}"
    suffixes = chain([suffix], (f"{suffix}-{number}" for number in count(2)))
    return next(name for each in suffixes if (name := suffixed(service.name, each)) not in taken)


def check_writable(service: Service, verb: str) -> None:
    """Raise WrongState for a service that follows a database elsewhere: nothing can be written in it."""
    if is_standby(service):
        raise WrongState(
            "FOLLOWS_SOURCE",
            f"Service {service.id} follows {service.upstream}, and {verb} needs to write in it",
            "Do it in the source, fork the service, or promote it first.",
        )


def check_independent(service: Service, verb: str) -> None:
    """Raise WrongState for a service that follows a database elsewhere, by whatever method."""
    if service.upstream is not None:
        raise WrongState(
            "FOLLOWS_SOURCE",
            f"Service {service.id} follows {service.upstream}, and {verb} would end that",
            "Fork the service and do it with the fork, or promote the service first.",
        )


def check_promoted(service: Service, verb: str) -> None:
    """Raise WrongState for a service that is half promoted: only another promotion may start, stop or open it."""
    if service.half_promoted and service.activity is None:
        raise WrongState(
            "HALF_PROMOTED",
            f"The promotion of service {service.id} is not complete, and {verb} needs it to be",
            "Promote it again ('ramet service promote'), or delete it.",
        )


def check_changeable(service: Service, verb: str) -> None:
    """Raise WrongState for a service that an operation cannot change now: one that is not made yet has no files."""
    check_promoted(service, verb)
    if status_of(service) not in CHANGEABLE or service.activity is not None or service.failed_at is not None:
        raise wrong_state(service, verb, CHANGEABLE)


def wrong_state(service: Service, verb: str, allowed: tuple[Status, ...]) -> WrongState | Unavailable:
    """Return the error for a verb that the present status does not allow.

    It is Unavailable for a service that falls asleep: clients see that it is READY, and soon it is that, or asleep.
    """
    if is_falling_asleep(service):
        return Unavailable("FALLING_ASLEEP", f"Service {service.id} is falling asleep", "Try again in a moment.")
    status, wanted = status_of(service), " or ".join(allowed)
    wrong = f"Service {service.id} is {'asleep' if service.asleep else status}, and {verb} needs it to be {wanted}"
    if status is Status.DELETING:
        remedy = "It is being deleted: use another service."
    elif service.failed_at is not None:
        remedy = "It could not be made: delete it, and make another one."
    elif service.activity is not None:
        if status in allowed:
            wrong = f"Service {service.id} is {status} while its {service.activity.procedure} is under way"
        remedy = "Wait until its operation is finished."
    elif service.half_promoted:
        remedy = "Its promotion is not complete: promote it again."
    elif service.asleep:
        remedy = "Connect to it, or start it ('ramet service start'), and try again."
    else:
        reachable = [one for one in allowed if one is not Status.UNSTABLE]
        remedy = f"Bring it to {' or '.join(reachable)} first."
    return WrongState("INVALID_STATE", wrong, remedy)


def is_being_restored(tx: sa.Connection, service_id: str) -> bool:
    """Tell whether a restore of a service in place is under way, and clients are not let in again yet."""
    found = operations.under_way_of(tx, service_id, ProcedureName.RESTORE)
    return any(one.state.get("stopped_seconds") is None for one in found)


def check_not_restored(tx: sa.Connection, service: Service) -> None:
    """Raise WrongState while a restore of a service in place is under way."""
    if is_being_restored(tx, service.id):
        raise WrongState(
            "RESTORE_UNDER_WAY", f"A restore of service {service.id} is under way", "Wait until it is finished."
        )
