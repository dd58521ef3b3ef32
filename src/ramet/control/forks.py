"""The verb fork: what a request means is chosen without I/O, what it depends on is gathered before the transaction.

The transaction rechecks only what can change meanwhile: the parent's state and its snapshots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.idempotency import earlier_answer, new_identity, remember, replay
from ramet.control.last_snapshot import is_behind, take_another
from ramet.control.lineage import ancestors_of
from ramet.control.lookup import find_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host, reserve_port
from ramet.control.requests import Accepted, ForkRequest, is_quiet
from ramet.control.services import accept, check_region
from ramet.ids import new_id
from ramet.model.fork import ForkStrategy, check_target
from ramet.model.procedures import ProcedureName
from ramet.model.resources import parse_size
from ramet.model.restore_point import Parent, RestorePoint, choose
from ramet.model.service import Origin, Service, check_name, fork_name, is_down, status_of
from ramet.model.snapshot import base_for, newest, rollable
from ramet.model.status import Status
from ramet.model.window import Gap
from ramet.procedures.servers import source_of
from ramet.procedures.state import ForkState
from ramet.store import snapshots


@dataclass(frozen=True)
class Decision:
    """A fork that could be made of a parent as it is: the restore point, and the service without port and password."""

    parent: Service
    point: RestorePoint
    child: Service


def fork_service(
    plane: Plane, project_id: str, service_id: str, request: ForkRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept a fork: check it, fix the restore point, hold the parent until its data is captured."""
    asked = (service_id, request)
    if (earlier := earlier_answer(plane, project_id, idempotency_key, asked)) is not None:
        return earlier
    new = new_identity(plane, idempotency_key)
    gaps = _host_facts(plane, project_id, service_id, request)
    with plane.store.write() as tx:
        if (replayed := replay(plane, tx, project_id, idempotency_key, asked)) is not None:
            return replayed
        plan = _decide(plane, tx, project_id, service_id, request, gaps, lock=True)
        child = replace(plan.child, id=new.service_id, port=reserve_port(plane, tx), verifier=new.verifier)
        accepted = accept(plane, tx, child, ProcedureName.FORK, new.password, _state(tx, plan, request), plan.parent.id)
        remember(plane, tx, project_id, idempotency_key, asked, child.id)
    plane.wake()
    return accepted


def decide(plane: Plane, project_id: str, service_id: str, request: ForkRequest) -> Decision:
    """Return what a request would come to, checked against the store and the host. Raises what the request would."""
    gaps = _host_facts(plane, project_id, service_id, request)
    with plane.store.read() as tx:
        return _decide(plane, tx, project_id, service_id, request, gaps)


def _host_facts(plane: Plane, project_id: str, service_id: str, request: ForkRequest) -> Sequence[Gap]:
    """Ask the host whether the fork can be made; return the gaps in the WAL of its parent.

    The host may have to read WAL or walk a tree for that: no transaction waits for it.
    """
    with plane.store.read() as tx:
        plan = _decide(plane, tx, project_id, service_id, request, ())
        known = rollable(snapshots.list_snapshots(tx, plan.parent.id))
    gaps = () if plan.point.target is None else plane.backend.restore.gaps(plan.parent.id, known)
    base, target = plan.point.base, plan.point.target
    as_of = target or (None if base is None else base.taken_at)
    plane.backend.restore.check_fork(source_of(plan.parent, None if base is None else base.id, target), as_of)
    return gaps


def _decide(
    plane: Plane,
    tx: sa.Connection,
    project_id: str,
    service_id: str,
    request: ForkRequest,
    gaps: Sequence[Gap],
    *,
    lock: bool = False,
) -> Decision:
    """Check a request against its parent and the gaps that are known; return what it means."""
    now = plane.clock()
    parent = find_service(plane, tx, project_id, service_id, lock=lock)
    target = check_target(request.strategy, request.target_time, now)
    check_region(request.region_code, parent.region_code)
    child = _inheriting(plane, parent, request, now)
    allowed = (Status.READY, Status.PAUSED)
    if status_of(parent) not in allowed and not is_down(parent):
        raise wrong_state(parent, "fork", allowed)
    known = _known_of(tx, parent, request.strategy, target, gaps)
    point = choose(request.strategy, target, request.snapshot_id, known, now)
    return Decision(parent, point, replace(child, origin=_origin(parent, request, point)))


def _known_of(
    tx: sa.Connection, parent: Service, strategy: ForkStrategy, target: datetime | None, gaps: Sequence[Gap]
) -> Parent:
    known = snapshots.list_snapshots(tx, parent.id)
    is_unreached = target is not None and base_for(known, target) is None
    return Parent(
        service_id=parent.id,
        created_at=parent.created_at,
        is_fork=parent.origin is not None,
        snapshots=known,
        gaps=gaps,
        is_behind=strategy is ForkStrategy.LAST_SNAPSHOT and is_behind(tx, parent, newest(known)),
        ancestors=ancestors_of(tx, parent) if is_unreached else (),
    )


def _inheriting(plane: Plane, parent: Service, request: ForkRequest, now: datetime) -> Service:
    """Return the service that a request means: what it inherits from its parent, and what it says itself."""
    return Service(
        id=new_id(),
        project_id=parent.project_id,
        name=fork_name(parent.name) if request.name is None else check_name(request.name),
        region_code=parent.region_code,
        service_type=parent.service_type,
        environment=request.environment,
        size=parse_size(request.cpu_millis, request.memory_gbs, parent.size, plane.backend.host.size()),
        volume_type=parent.volume_type,
        host=endpoint_host(plane, parent.pg_major),
        port=0,
        pg_major=parent.pg_major,
        created_at=now,
        verifier=parent.verifier,
    )


def _origin(parent: Service, request: ForkRequest, point: RestorePoint) -> Origin:
    base = point.base
    return Origin(
        project_id=parent.project_id,
        service_id=parent.id,
        name=parent.name,
        strategy=request.strategy,
        target_time=request.target_time,
        snapshot_id=None if base is None else base.id,
        data_time=None if base is None or point.target is not None else base.taken_at,
    )


def _state(tx: sa.Connection, plan: Decision, request: ForkRequest) -> ForkState:
    """Return what the operation has to know; a snapshot that the fork waits for is submitted."""
    point = plan.point
    base_id = take_another(tx, plan.parent) if point.awaits_snapshot else None if point.base is None else point.base.id
    return ForkState(
        quiet=is_quiet(request),
        parent_id=plan.parent.id,
        strategy=point.strategy,
        base_id=base_id,
        target=point.target,
    )
