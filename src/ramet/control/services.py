"""The verbs over services. Each is one transaction; the work that follows is an operation."""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ramet.backends.interface.values import ExtensionUpdate
from ramet.control.admission import capacity_of, check_admission, wanted_for, wanted_to_resize, wanted_to_start
from ramet.control.high_availability import checked_standbys
from ramet.control.idempotency import earlier_answer, new_identity, remember, replay
from ramet.control.key_limits import with_present_key
from ramet.control.life_spans import within_limits
from ramet.control.lookup import (
    check_changeable,
    check_promoted,
    check_writable,
    claim,
    find_service,
    no_service,
    read_service,
    set_as_service,
    set_columns,
    visible_service,
    wrong_state,
)
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host, reserve_ports
from ramet.control.protection import check_unprotected
from ramet.control.quotas import check_growth
from ramet.control.requests import Accepted, Amount, CreateRequest, kept
from ramet.control.sleep import with_server_ports
from ramet.errors import Invalid
from ramet.ids import is_id, new_id
from ramet.model.environment import Environment
from ramet.model.high_availability import with_standbys
from ramet.model.names import check_name
from ramet.model.passwords import Secret, scram_verifier
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, is_being_deleted, status_of
from ramet.model.service_type import ServiceType
from ramet.model.size import Size, more_than, parse_size
from ramet.model.status import Status
from ramet.model.wal_level import with_wal_level
from ramet.procedures.servers import server_of
from ramet.procedures.state import CreateState, DeleteState, Interrupting, OptimizeState, ResizeState, stored_size
from ramet.store import listed_services, operations, replica_sets, services

PASSWORD_LIMIT = 1000
_FRESH = Interrupting()


def list_services(plane: Plane, project_id: str) -> list[Service]:
    """Return the visible services of a project with their read replica sets, oldest first, in two queries."""
    now = plane.clock()
    with plane.store.read() as tx:
        listed = listed_services.list_services(tx, project_id, now, made_by=plane.only_made_by)
        sets = replica_sets.list_of_project(tx, project_id, now)
    return [replace(each, replica_sets=tuple(sets[each.id])) if each.id in sets else each for each in listed]


def get_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Return a service of the project, or a read replica set of it as a service. Raises NotFound."""
    with plane.store.read() as tx:
        found = visible_service(plane, tx, project_id, service_id) or set_as_service(plane, tx, project_id, service_id)
    if found is None:
        raise no_service(service_id)
    return found


def get_service_including_deleted(plane: Plane, project_id: str, service_id: str) -> Service:
    """Return a service in its last state, deleted or not. Raises NotFound."""
    with plane.store.read() as tx:
        found = services.get_service(tx, service_id) if is_id(service_id) else None
    if found is None or found.project_id != project_id or plane.hides(found):
        raise no_service(service_id)
    return found


def create_service(
    plane: Plane, project_id: str, request: CreateRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept a new, empty service."""
    if (earlier := earlier_answer(plane, project_id, idempotency_key, request)) is not None:
        return earlier
    wanted = checked_request(plane, project_id, request)
    state = CreateState(snapshot_id=new_id())
    return accept_new(plane, project_id, request, idempotency_key, wanted, ProcedureName.CREATE, state)


def accept_new(
    plane: Plane,
    project_id: str,
    request: object,
    idempotency_key: str | None,
    wanted: Service,
    procedure: ProcedureName,
    state: Any,
) -> Accepted:
    """Give a wanted service its id, port and password, and accept the procedure that creates it."""
    new, capacity = new_identity(plane, idempotency_key), capacity_of(plane)
    with plane.change() as tx:
        plane = with_present_key(plane, tx)
        if (replayed := replay(plane, tx, project_id, idempotency_key, request)) is not None:
            return replayed
        (port,) = reserve_ports(plane, tx, new.free_ports)
        check_admission(plane, tx, capacity, project_id, wanted_for([wanted]))
        (wanted,) = within_limits(plane, tx, [wanted])
        (service,) = with_server_ports(plane, tx, new.free_ports, [new.given_to(wanted, plane, port)])
        accepted = accept(plane, tx, service, procedure, new.password, state)
        remember(plane, tx, project_id, idempotency_key, request, service.id)
    return accepted


def start_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Accept the resumption of a paused service, if the host can bear its servers."""
    capacity = capacity_of(plane)

    def check(tx: sa.Connection, service: Service) -> None:
        check_admission(plane, tx, capacity, project_id, wanted_to_start(tx, service))

    return _change(plane, project_id, service_id, ProcedureName.START, (Status.PAUSED,), check=check)


def stop_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Accept the pause of a service; a restart of a server that was down is canceled first."""
    asleep = read_service(plane, project_id, service_id).asleep
    allowed = (Status.READY, Status.UNSTABLE, *([Status.PAUSED] if asleep else []))
    return _change(plane, project_id, service_id, ProcedureName.STOP, allowed)


def delete_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Accept the deletion of a service in any state; what would take long without need is canceled first."""
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if is_being_deleted(service):
            return service
        check_unprotected(service, "delete")
        return submit_deletion(plane, tx, service)


def submit_deletion(plane: Plane, tx: sa.Connection, service: Service, reason: str | None = None) -> Service:
    """Submit the deletion of a service whose row is locked, and that is not being deleted; `reason` is in its history.

    The fork that an upgrade was tried on is claimed by the upgrade of its parent, which goes on: the deletion waits for
    it. Wake the worker after the commit.
    """
    activity = service.activity
    if activity is not None and activity.procedure in SPECS[ProcedureName.DELETE].interrupts:
        operations.cancel(tx, activity.operation_id, service.id)
    interrupted = None if activity is None else activity.operation_id
    return claim(plane, tx, service, ProcedureName.DELETE, DeleteState(interrupted=interrupted, reason=reason))


def resize_service(plane: Plane, project_id: str, service_id: str, cpu_millis: Amount, memory_gbs: Amount) -> Service:
    """Accept another size for a service that serves, is paused, or is down and may need more to start."""
    size, capacity = parse_size(cpu_millis, memory_gbs, Size(), plane.backend.host.size()), capacity_of(plane)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        check_changeable(service, "resize")
        check_growth(plane, tx, service, more_than(size, service.size))
        check_admission(plane, tx, capacity, project_id, wanted_to_resize(tx, service, size))
        state = ResizeState(before=stored_size(service.size), after=stored_size(size))
        changed = claim(plane, tx, service, ProcedureName.RESIZE, state)
    return replace(changed, size=size)  # the size that was requested, though it is in force only after the operation


def optimize_service(plane: Plane, project_id: str, service_id: str) -> Service:
    """Accept that statistics are collected; the service serves during that."""
    return _change(plane, project_id, service_id, ProcedureName.OPTIMIZE, (Status.READY,), OptimizeState())


def rename_service(plane: Plane, project_id: str, service_id: str, name: str) -> Service:
    """Give a service another name. Names need not be unique."""
    return set_columns(plane, project_id, service_id, "rename", name=check_name(name))


def set_environment(plane: Plane, project_id: str, service_id: str, environment: Environment) -> Service:
    """Declare a service PROD or DEV; memory settings that depend on it change at the next start."""
    return set_columns(plane, project_id, service_id, "setEnvironment", environment=environment.value)


def update_password(plane: Plane, project_id: str, service_id: str, password: Secret) -> None:
    """Change the admin's password; from the return on the service accepts only the new one.

    Only PostgreSQL stores it: two records could differ. No transaction of the store is open during that: a tenant
    that locks the role delays no other session.
    """
    verifier = scram_verifier(_check_password(password))
    server = server_of(_serving(plane, project_id, service_id, "updatePassword"))
    plane.record("started")
    plane.backend.servers.set_password(server, verifier)


def update_extensions(plane: Plane, project_id: str, service_id: str, name: str | None) -> Sequence[ExtensionUpdate]:
    """Update one extension, or all, in the databases of a service to the versions that are installed on the host."""
    server = server_of(_serving(plane, project_id, service_id, "updateExtensions"))
    plane.record("started")
    made = plane.backend.servers.update_extensions(server, name)
    if made is None:
        raise Invalid(
            "EXTENSION_NOT_INSTALLED",
            f"No database of service {service_id} has the extension {name!r:.80}",
            "Name one that was created there, or leave it out to update all.",
        )
    return made


def accept(
    plane: Plane,
    tx: sa.Connection,
    service: Service,
    procedure: ProcedureName,
    password: Secret,
    state: Struct,
    held: str | None = None,
) -> Accepted:
    """Insert a new service of the caller, and submit the operation that makes it; see `claim`."""
    services.insert_service(tx, replace(service, made_by=None if plane.caller is None else plane.caller.public_key))
    return Accepted(claim(plane, tx, service, procedure, state, held), password)


def check_region(wanted: str | None, region_code: str) -> None:
    """Raise Invalid for a region other than the only one."""
    if wanted not in (None, region_code):
        raise Invalid(
            "INVALID_REGION",
            f"region_code {(wanted or '')[:64]!r} is not served here; the only region is {region_code!r}",
            "Leave region_code out, or send that one.",
        )


def _major_of(plane: Plane, request: CreateRequest) -> int:
    known = plane.backend.upgrades.majors()
    if request.pg_major is None:
        return plane.backend.host.default_pg_major(request.service_type)
    if request.pg_major not in known:
        raise Invalid(
            "INVALID_VERSION",
            f"pg_major must be a version that this host has: {' or '.join(map(str, known))} (got {request.pg_major})",
            "Install that version of PostgreSQL, or name its directory of programs in RAMET_PG_BIN, and restart Ramet.",
        )
    return request.pg_major


def checked_request(plane: Plane, project_id: str, request: CreateRequest) -> Service:
    """Check a request against the host; return the service that it describes, without id, port and password."""
    check_name(request.name)
    check_region(request.region_code, plane.placement.region_code)
    standbys = checked_standbys(plane, request.replica_count)
    size = parse_size(request.cpu_millis, request.memory_gbs, Size(), plane.backend.host.size())
    pg_major = _major_of(plane, request)
    plane.backend.host.check_service_type(request.service_type, pg_major)
    if request.with_vectors:
        plane.backend.host.check_service_type(ServiceType.VECTOR, pg_major)
    plane.placement.check_tls(pg_major, has_tls=plane.backend.host.has_tls(pg_major))
    plane.backend.host.check_room()
    return Service(
        id="",
        project_id=project_id,
        name=request.name,
        region_code=plane.placement.region_code,
        service_type=request.service_type,
        environment=request.environment,
        size=size,
        volume_type=plane.backend.host.volume_type(),
        host=endpoint_host(plane, pg_major),
        port=0,
        pg_major=pg_major,
        created_at=plane.clock(),
        verifier=Secret(""),
        settings=with_standbys(with_wal_level({}, request.wal_level), standbys),
        **kept(request, plane.clock()),
    )


def _change(
    plane: Plane,
    project_id: str,
    service_id: str,
    procedure: ProcedureName,
    allowed: tuple[Status, ...],
    state: Interrupting = _FRESH,
    check: Callable[[sa.Connection, Service], None] = lambda _tx, _service: None,
) -> Service:
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        check_promoted(service, procedure)
        activity = service.activity
        if activity is not None and activity.procedure in SPECS[procedure].interrupts:
            operations.cancel(tx, activity.operation_id)
            state, activity = replace(state, interrupted=activity.operation_id), None
        if status_of(service) not in allowed or activity is not None or service.failed_at is not None:
            raise wrong_state(service, procedure, allowed)
        if procedure == ProcedureName.OPTIMIZE:
            check_writable(service, procedure)
        check(tx, service)
        return claim(plane, tx, service, procedure, state)


def _serving(plane: Plane, project_id: str, service_id: str, verb: str) -> Service:
    service = read_service(plane, project_id, service_id)
    check_writable(service, verb)
    if status_of(service) is not Status.READY:
        raise wrong_state(service, verb, (Status.READY,))
    return service


def _check_password(password: Secret) -> Secret:
    text = password.reveal()
    if not text.isprintable():
        wrong = "it has a character that is not printable"
    elif not 1 <= len(text) <= PASSWORD_LIMIT:
        wrong = f"it has {len(text)}"
    else:
        return password
    raise Invalid(
        "INVALID_PASSWORD",
        f"password must have 1 to {PASSWORD_LIMIT} printable characters, but {wrong}",
        "Send another one; all letters, digits, signs and spaces are allowed.",
    )
