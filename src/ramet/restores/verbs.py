"""The verbs over restores in place: restore, reset, checkpoint and rewind, and how a restore went."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace

from ramet.control.admission import Wanted, capacity_of, check_admission, wanted_to_start
from ramet.control.forks import ForkPlan, plan_fork, recheck, state_of
from ramet.control.idempotency import remember, replay
from ramet.control.key_limits import with_present_key
from ramet.control.lookup import check_independent, check_not_restored, find_service, unused_name, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import free_ports, reserve_ports
from ramet.control.protection import check_confirmed, check_unprotected
from ramet.control.requests import ForkRequest
from ramet.control.restore import PendingSnapshot, take_snapshot
from ramet.errors import Error, Forbidden, Invalid, NotFound, WrongState
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.names import check_name
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.rights import Role
from ramet.model.service import Service, is_down, status_of
from ramet.model.status import READY_OR_PAUSED, OperationStatus
from ramet.procedures.restore_in_place import RESET, REWIND, STATE_OF
from ramet.procedures.spec import submit
from ramet.procedures.state import RestoreState
from ramet.store import operations, services

_VERB_RESTORE = "restore"


@dataclass(frozen=True)
class RestoreRequest:
    """A restore in place. Exactly one of the first three says which state: a time, a snapshot, or a service as of now.

    `snapshot` is the id or the name of a snapshot of the service. `keeps`: the state before remains, as a paused
    service. `confirm` is the service's name, which a PROD service needs.
    """

    target_time: str | None = None
    snapshot: str | None = None
    from_service_id: str | None = None
    keeps: bool = True
    confirm: str | None = None


@dataclass(frozen=True)
class ResetRequest:
    """The reset of a fork: a fresh copy of its parent, as of now, of its last snapshot, or of a past time."""

    strategy: ForkStrategy = ForkStrategy.NOW
    target_time: str | None = None
    keeps: bool = False
    confirm: str | None = None


@dataclass(frozen=True)
class RewindRequest:
    """The return of a service to a checkpoint: to the newest snapshot with that name."""

    name: str
    keeps: bool = False
    confirm: str | None = None


@dataclass(frozen=True)
class Restore:
    """A restore in place, and how far it is. `step` is the title of a step; `source_id` is the service of the state.

    `data_replaced`: the service has the restored data, and keeps it also when the restore failed after that.
    """

    id: str
    service_id: str
    verb: str
    status: OperationStatus
    step: str | None
    progress: str
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    source_id: str
    strategy: ForkStrategy
    target_time: datetime | None
    snapshot_id: str | None
    data_replaced: bool
    previous_service_id: str | None
    stopped_seconds: float | None


def restore_service(
    plane: Plane, project_id: str, service_id: str, request: RestoreRequest, idempotency_key: str | None = None
) -> Restore:
    """Accept that a service gets an earlier state of its own, or the present one of another service."""
    given = [one for one in (request.target_time, request.snapshot, request.from_service_id) if one is not None]
    if len(given) != 1:
        raise Invalid(
            "INVALID_RESTORE_POINT",
            f"Exactly one of target_time, snapshot and from_service_id is needed (got {len(given)})",
            "Send target_time as RFC 3339, a snapshot's id or name, or the id of the service to take the data from.",
        )
    if request.from_service_id is not None:
        source_id, wanted = request.from_service_id, ForkRequest(ForkStrategy.NOW)
    elif request.snapshot is not None:
        source_id, wanted = service_id, ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=request.snapshot)
    else:
        source_id, wanted = service_id, ForkRequest(ForkStrategy.PITR, target_time=request.target_time)
    return _accept(plane, project_id, service_id, source_id, wanted, request, _VERB_RESTORE, idempotency_key)


def reset_service(
    plane: Plane, project_id: str, service_id: str, request: ResetRequest, idempotency_key: str | None = None
) -> Restore:
    """Accept that a fork becomes a fresh copy of its parent, at its own endpoint."""
    with plane.store.read() as tx:
        origin = find_service(plane, tx, project_id, service_id).origin
    if origin is None:
        raise Invalid(
            "NOT_A_FORK", f"Service {service_id} is not a fork, so that it has no parent", "Restore it instead."
        )
    wanted = ForkRequest(request.strategy, target_time=request.target_time)
    return _accept(plane, project_id, service_id, origin.service_id, wanted, request, RESET, idempotency_key)


def rewind_service(
    plane: Plane, project_id: str, service_id: str, request: RewindRequest, idempotency_key: str | None = None
) -> Restore:
    """Accept that a service returns to a checkpoint."""
    if request.keeps and plane.only_made_by is not None:
        raise Forbidden(
            "FORBIDDEN",
            f"A key with the role {Role.FORKER} keeps no state before a rewind, for it would be one more service",
            "Leave keep_previous out, or use a key with another role.",
        )
    wanted = ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=request.name)
    return _accept(plane, project_id, service_id, service_id, wanted, request, REWIND, idempotency_key)


def create_checkpoint(plane: Plane, project_id: str, service_id: str, name: str) -> PendingSnapshot:
    """Accept a snapshot to which the service can be rewound by its name; it stays until it is deleted."""
    return take_snapshot(plane, project_id, service_id, check_name(name))


def list_restores(plane: Plane, project_id: str, service_id: str) -> list[Restore]:
    """Return the restores in place of a service, newest first, as long as its history keeps them."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        return [_shown(one) for one in _restores_of(tx, service.id)]


def get_restore(plane: Plane, project_id: str, service_id: str, restore_id: str) -> Restore:
    """Return one restore of a service. Raises NotFound."""
    found = next((one for one in list_restores(plane, project_id, service_id) if one.id == restore_id), None)
    if found is None:
        raise NotFound("RESTORE_NOT_FOUND", f"service {service_id} has no restore {restore_id[:64]!r}")
    return found


def refusal_of(service: Service) -> Error | None:
    """Return why the data of a service cannot be replaced, as things are; None when it can."""
    try:
        _check_service(service, _VERB_RESTORE)
    except Error as error:
        return error
    return None


def may_restore(service: Service) -> bool:
    """Tell whether the data of a service can be replaced, as things are."""
    return refusal_of(service) is None


def _accept(
    plane: Plane,
    project_id: str,
    service_id: str,
    source_id: str,
    wanted: ForkRequest,
    request: RestoreRequest | ResetRequest | RewindRequest,
    verb: str,
    key: str | None,
) -> Restore:
    """Check a restore against the store and the host, then accept it in one transaction."""
    asked = (service_id, request)
    with plane.store.read() as tx:
        if (earlier := _earlier(plane, tx, project_id, key, asked)) is not None:
            return earlier
        service = find_service(plane, tx, project_id, service_id)
        _check(tx, service, verb, request.confirm)
    plane.backend.replacements.check()
    plan = plan_fork(plane, project_id, source_id, wanted)
    _check_source(service, plan)
    ports, capacity = free_ports(plane) if request.keeps else [], capacity_of(plane)
    with plane.change() as tx:
        plane = with_present_key(plane, tx)
        if (earlier := _earlier(plane, tx, project_id, key, asked)) is not None:
            return earlier
        plan = recheck(plane, tx, plan, wanted)
        current = find_service(plane, tx, project_id, service_id, lock=True)
        _check(tx, current, verb, request.confirm)
        if request.keeps:
            reserve_ports(plane, tx, ports)  # to be refused now and not at the end; which of them it gets is seen then
        # The copy, which then takes the service's place; one that is paused is resumed when the copy has stopped.
        starting = wanted_to_start(tx, current) if current.paused else Wanted(1)
        check_admission(plane, tx, capacity, project_id, starting)
        state = replace(
            _first_state(tx, plan, wanted, current, verb),
            previous_name=unused_name(plane, tx, current, "before-restore") if request.keeps else None,
            free_ports=tuple(ports),
            key=None if key is None else _digest(key),
        )
        operation_id = submit(tx, ProcedureName.RESTORE, current.id, state)
        if not plan.point.from_archive:
            services.add_hold(tx, source_id, operation_id)
        remember(plane, tx, project_id, key, asked, current.id)
        accepted = operations.get(tx, operation_id)
    if accepted is None:
        raise AssertionError("BUG: the operation was just submitted")
    return _shown(accepted)


def _first_state(tx: sa.Connection, plan: ForkPlan, wanted: ForkRequest, service: Service, verb: str) -> RestoreState:
    """Return what is copied, and how that is secured."""
    keeps_roles = _is_own_state(service, plan.parent)
    copied = replace(state_of(tx, plan, wanted), quiet=_is_neutralized(service, keeps_roles=keeps_roles))
    return RestoreState(
        **asdict(copied),
        verb=verb,
        keeps_roles=keeps_roles,
        copy_id=new_id(),
        snapshot_id=new_id(),
        previous_id=new_id(),
        pg_major=service.pg_major,
        target_text=wanted.target_time,
    )


def _check(tx: sa.Connection, service: Service, verb: str, confirm: str | None) -> None:
    """Raise when the data of a service must not be replaced now."""
    _check_service(service, verb)
    check_not_restored(tx, service)
    moves = operations.under_way_of(tx, service.id, ProcedureName.MOVE)
    # One that was called off has the service until it is known where that serves; what it then undoes is elsewhere.
    if any(one.status is OperationStatus.RUNNING and not one.cancelled for one in moves):
        raise WrongState(
            "MOVE_UNDER_WAY",
            f"Service {service.id} is being moved, and its copy there would have the data from before the {verb}",
            "See 'ramet service moves', and call that move off first.",
        )
    check_confirmed(service, confirm, f"{verb} replaces its data")


def _check_service(service: Service, verb: str) -> None:
    check_unprotected(service, verb)
    check_independent(service, verb)
    if service.activity is not None or (status_of(service) not in READY_OR_PAUSED and not is_down(service)):
        raise wrong_state(service, verb, READY_OR_PAUSED)


def _check_source(service: Service, plan: ForkPlan) -> None:
    """Raise Invalid for data that the service cannot have at its endpoint."""
    source = plan.parent
    if source.pg_major != service.pg_major or source.service_type is not service.service_type:
        raise Invalid(
            "OTHER_KIND_OF_SERVICE",
            f"Service {source.id} is {source.service_type} with PostgreSQL {source.pg_major}, and service"
            f" {service.id} is {service.service_type} with PostgreSQL {service.pg_major}",
            "Take the data from a service of the same type and version, or fork that one instead.",
        )
    if source.upstream is not None:
        raise Invalid(
            "FOLLOWS_SOURCE",
            f"Service {source.id} follows {source.upstream}: its data becomes a service of its own only by a fork",
            "Fork it, and take the data from the fork.",
        )


def _is_own_state(service: Service, source: Service) -> bool:
    """Tell whether a state is one of the service itself, or what an earlier restore has replaced in it."""
    return service.id in (source.id, source.settings.get(STATE_OF))


def _is_neutralized(service: Service, *, keeps_roles: bool) -> bool:
    """Tell whether what acts on the outside world is disabled: as in a fork, where the data is that of another one."""
    return not keeps_roles and service.environment is Environment.DEV


def _earlier(
    plane: Plane, tx: sa.Connection, project_id: str, key: str | None, asked: tuple[str, Any]
) -> Restore | None:
    """Return the restore that an earlier request with the same key has begun."""
    replayed = replay(plane, tx, project_id, key, asked)
    if replayed is None or key is None:
        return None
    found = _restores_of(tx, replayed.service.id)
    return next((_shown(one) for one in found if one.state.get("key") == _digest(key)), None)


def _restores_of(tx: sa.Connection, service_id: str) -> list[operations.Operation]:
    return operations.of_subject(tx, service_id, ProcedureName.RESTORE)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _shown(found: operations.Operation) -> Restore:
    state = msgspec.convert(found.state, RestoreState)
    status, finished_at = OperationStatus(found.status), found.finished_at
    if status is OperationStatus.RUNNING and state.stopped_seconds is not None:  # only rests of it are removed
        status, finished_at = OperationStatus.SUCCEEDED, datetime.fromtimestamp(found.step_started_at, UTC)
    is_kept = state.is_open and state.previous_name is not None
    return Restore(
        id=found.id,
        service_id=found.subject,
        verb=state.verb,
        status=status,
        step=None if finished_at is not None else SPECS[found.procedure].steps.get(found.step),
        progress=found.progress,
        error=found.error,
        started_at=found.created_at,
        finished_at=finished_at,
        source_id=state.parent_id,
        strategy=state.strategy,
        target_time=state.target,
        snapshot_id=state.base_id,
        data_replaced=state.is_open,
        previous_service_id=state.previous_id if is_kept else None,
        stopped_seconds=state.stopped_seconds,
    )
