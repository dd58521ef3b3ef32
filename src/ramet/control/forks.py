"""The verb fork. What a request depends on is gathered before the transaction; the restore point is chosen without I/O.

The transaction checks again only what can have changed by then: the parent's state and its snapshots.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.values import BaseBackup
from ramet.control.admission import capacity_of, check_admission, wanted_for
from ramet.control.archived_forks import base_backup_for, find_parent
from ramet.control.idempotency import NewIdentity, earlier_answer, new_identities, remember, replay
from ramet.control.key_limits import as_parent_seen, check_request, with_present_key
from ramet.control.life_spans import within_limits
from ramet.control.lookup import check_promoted, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host, reserve_ports
from ramet.control.requests import Accepted, ForkRequest, is_neutralized, kept
from ramet.control.restore import archive_of, check_snapshots, gaps_of, pending_snapshots
from ramet.control.services import accept, check_region
from ramet.control.sleep import with_server_ports
from ramet.errors import Invalid, Unavailable, WrongState
from ramet.model.capacity import Capacity
from ramet.model.fork import MOST_AT_ONCE, ForkStrategy, check_target
from ramet.model.names import check_name, fork_name, suffixed
from ramet.model.parameters import parameters_of, with_parameters
from ramet.model.procedures import ProcedureName
from ramet.model.restore_point import Ancestor, Parent, RestorePoint, choose
from ramet.model.service import Origin, Service, is_down, shown_status
from ramet.model.size import parse_size
from ramet.model.snapshot import Snapshot, SnapshotKind, base_for, lsn_number, newest, rollable
from ramet.model.status import READY_OR_PAUSED
from ramet.model.timestamps import rfc3339
from ramet.model.wal_level import wal_level_of, with_wal_level
from ramet.procedures.servers import server_of, source_of, submit_snapshot
from ramet.procedures.state import ForkState
from ramet.store import operations, services, snapshots

_LONGEST_LINE = 1000


@dataclass(frozen=True)
class ForkPlan:
    """What a request comes to: the restore point, and the fork as a service without port and password.

    `known` is what was known of the parent when the restore point was chosen. `base_backup` is the one in the off-host
    archive that a fork from there starts with. `lost` are snapshots whose data is gone: `known` has none.
    """

    parent: Service
    known: Parent
    point: RestorePoint
    fork: Service
    base_backup: BaseBackup | None = None
    lost: frozenset[str] = frozenset()


def fork_services(
    plane: Plane,
    project_id: str,
    service_id: str,
    request: ForkRequest,
    count: int,
    idempotency_key: str | None = None,
) -> list[Accepted]:
    """Accept several forks of the same restore point, or none of them; more than one have their numbers as suffix.

    A repeated request with the same key returns the same forks, and makes those again that are gone.
    """
    keys, asked = keys_of(idempotency_key, count), asked_for(service_id, request, count)
    earlier = [earlier_answer(plane, project_id, key, asked) for key in keys]
    if found := _all(earlier):
        return found
    plan = plan_fork(plane, project_id, service_id, request, earlier.count(None))
    identities, capacity = new_identities(plane, keys), capacity_of(plane)
    with plane.change(early=True) as tx:
        plane = with_present_key(plane, tx)
        replayed = [replay(plane, tx, project_id, key, asked) for key in keys]
        if found := _all(replayed):
            return found
        missing = {n: identities[n] for n, one in enumerate(replayed) if one is None}
        made = _accept_missing(plane, tx, recheck(plane, tx, plan, request), request, capacity, missing, count)
        for n, one in made.items():
            remember(plane, tx, project_id, keys[n], asked, one.service.id)
    return [made[n] if one is None else one for n, one in enumerate(replayed)]


def _accept_missing(
    plane: Plane,
    tx: sa.Connection,
    plan: ForkPlan,
    request: ForkRequest,
    capacity: Capacity,
    missing: Mapping[int, NewIdentity],
    count: int,
) -> dict[int, Accepted]:
    """Accept those of `count` forks that do not exist, by their index; the plan was checked in this transaction."""
    parent, (first, *_) = plan.parent, missing.values()
    ports = reserve_ports(plane, tx, first.free_ports, len(missing))
    check_admission(plane, tx, capacity, parent.project_id, wanted_for([plan.fork] * len(missing)))
    wanted = within_limits(plane, tx, [numbered(plan.fork, n, count) for n in missing], parent)
    state, held = state_of(tx, plan, request), None if plan.point.from_archive else parent.id
    given = [new.given_to(each, plane, port) for new, port, each in zip(missing.values(), ports, wanted, strict=True)]
    return {
        n: accept(plane, tx, fork, ProcedureName.FORK, missing[n].password, state, held)
        for n, fork in zip(missing, with_server_ports(plane, tx, first.free_ports, given), strict=True)
    }


def plan_fork(plane: Plane, project_id: str, service_id: str, request: ForkRequest, count: int = 1) -> ForkPlan:
    """Check a request for `count` forks against the store and the host, and return what it comes to.

    Nothing is changed. The host may have to read WAL or walk a directory tree for that: no transaction waits for it.
    """
    now = plane.clock()
    check_request(plane, request)
    with plane.store.read() as tx:
        parent = find_parent(plane, tx, project_id, service_id, from_deleted=request.from_deleted)
        target = check_target(request.strategy, request.target_time, now)
        known = _known_of(plane, tx, parent, request.strategy, target)
    lost = frozenset() if request.strategy is ForkStrategy.NOW or not known.snapshots else _lost(plane, known)
    if lost:
        with plane.store.read() as tx:
            known = _known_of(plane, tx, parent, request.strategy, target, lost)
    if request.strategy is ForkStrategy.LAST_SNAPSHOT:
        check_snapshots(plane)
    fork = checked_fork(plane, parent, request, now)
    _check_received(parent, target)
    if target is not None and not known.is_deleted:
        known = known.with_gaps(gaps_of(plane, parent.id, known.snapshots))
    point = choose(request.strategy, target, request.snapshot_id, known, now)
    base_id = None if point.base is None else point.base.id
    as_of = point.target or (None if point.base is None else point.base.taken_at)
    base_backup = base_backup_for(plane, parent, known, point) if point.from_archive else None
    if base_backup is None:
        plane.backend.restore.check_fork(source_of(parent, base_id, point.target), as_of, count)
    return ForkPlan(parent, known, point, replace(fork, origin=_origin(parent, request, point)), base_backup, lost)


def recheck(plane: Plane, tx: sa.Connection, plan: ForkPlan, request: ForkRequest) -> ForkPlan:
    """Lock the parent, and choose again: its state and its snapshots may have changed since the plan was made."""
    parent = lock_parent(plane, tx, plan.parent, from_deleted=request.from_deleted)
    _check_promoted(parent, request)
    known = _known_of(plane, tx, parent, request.strategy, plan.point.target, plan.lost).with_gaps(plan.known.gaps)
    point = choose(request.strategy, plan.point.target, request.snapshot_id, known, plane.clock())
    if point.from_archive and plan.base_backup is None:
        raise WrongState("SNAPSHOT_LOST", f"A snapshot of service {parent.id} has just expired", "Try again.")
    fork = replace(plan.fork, origin=_origin(parent, request, point))
    return ForkPlan(parent, known, point, fork, plan.base_backup, plan.lost)


def keys_of(key: str | None, count: int) -> list[str | None]:
    """Return the key of each of several forks: one with a space, which no key of a client has. Raises Invalid."""
    if not 1 <= count <= MOST_AT_ONCE:
        raise Invalid("INVALID_FIELD", f"count must be between 1 and {MOST_AT_ONCE} (got {count})")
    return [key if key is None or count == 1 else f"{key} {n}" for n in range(1, count + 1)]


def asked_for(service_id: str, request: ForkRequest, count: int) -> object:
    """Return what a repeated request has to be equal to."""
    return (service_id, request) if count == 1 else (service_id, request, count)


def _all(found: list[Accepted | None]) -> list[Accepted] | None:
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def numbered(fork: Service, n: int, count: int) -> Service:
    """Return a fork with its number in its name, which stays within the limit; lists show it in this order."""
    suffix = "" if count == 1 else f"-{n + 1}"
    created_at = fork.created_at + timedelta(microseconds=n)
    return replace(fork, name=suffixed(fork.name, suffix), created_at=created_at)


def _check_received(parent: Service, target: datetime | None) -> None:
    """Raise Invalid for a time that a standby has not received from its source, while nothing arrives from there."""
    seen = parent.following
    if target is None or seen is None or not seen.receives_nothing or seen.complete_until is None:
        return
    if target > seen.complete_until:
        raise Invalid(
            "NOT_RECEIVED",
            f"Service {parent.id} has what was committed in its source until {rfc3339(seen.complete_until)}",
            f"Choose a time before that. {seen.problem}",
        )


def checked_fork(plane: Plane, parent: Service, request: ForkRequest, now: datetime) -> Service:
    """Return `child_of` of a parent that can be forked now, and in this region. Raises Invalid or WrongState."""
    check_region(request.region_code, parent.region_code)
    fork = child_of(plane, parent, request, now)
    _check_parent(parent)
    _check_promoted(parent, request)
    return fork


def lock_parent(plane: Plane, tx: sa.Connection, parent: Service, *, from_deleted: bool) -> Service:
    """Lock a parent, and return it as it is now. Raises WrongState when it cannot be forked any more."""
    parent = find_parent(plane, tx, parent.project_id, parent.id, from_deleted=from_deleted, lock=True)
    _check_parent(parent)
    return parent


def _check_parent(parent: Service) -> None:
    """Raise WrongState for a service that cannot be forked now; one that falls asleep can, before or after it has."""
    if parent.deleted_at is None and shown_status(parent) not in READY_OR_PAUSED and not is_down(parent):
        raise wrong_state(parent, "fork", READY_OR_PAUSED)


def _check_promoted(parent: Service, request: ForkRequest) -> None:
    """Raise WrongState for a fork, except of a snapshot, of what is neither a standby nor a service of its own."""
    if request.strategy is not ForkStrategy.LAST_SNAPSHOT:
        check_promoted(parent, f"a fork with {request.strategy}")


def _lost(plane: Plane, known: Parent) -> frozenset[str]:
    """Return the snapshots that somebody has removed by hand; none where the host cannot be asked now.

    It is asked after the rows were read: the data of a snapshot is written before its row.
    """
    kept = None
    with contextlib.suppress(Unavailable):
        kept = plane.backend.restore.snapshot_ids(known.service_id)
    return frozenset() if kept is None else frozenset(one.id for one in known.snapshots) - kept


def _known_of(
    plane: Plane,
    tx: sa.Connection,
    parent: Service,
    strategy: ForkStrategy,
    target: datetime | None,
    lost: frozenset[str] = frozenset(),
) -> Parent:
    listed = snapshots.list_snapshots(tx, parent.id)
    known = [one for one in listed if one.id not in lost]
    is_unreached = target is not None and base_for(known, target) is None
    of_last = strategy is ForkStrategy.LAST_SNAPSHOT
    one_comes = of_last and operations.is_running(tx, parent.id, ProcedureName.SNAPSHOT)
    return Parent(
        service_id=parent.id,
        created_at=parent.created_at,
        is_fork=parent.origin is not None,
        snapshots=known,
        is_behind=of_last and _is_behind(tx, parent, newest(known), one_comes=one_comes),
        has_snapshot_under_way=one_comes,
        names_under_way=[one.name for one in pending_snapshots(tx, parent.id, listed) if one.name] if one_comes else (),
        ancestors=_ancestors_of(plane, tx, parent) if is_unreached else (),
        archive=archive_of(plane, parent),
        is_deleted=parent.deleted_at is not None,
    )


def _ancestors_of(plane: Plane, tx: sa.Connection, service: Service) -> list[Ancestor]:
    """Return the ancestors of a fork, nearest first, as far as they are known, and exist for the caller."""
    found: list[Service] = []
    current: Service | None = service
    while current is not None and current.origin is not None and len(found) < _LONGEST_LINE:
        current = services.get_service(tx, current.origin.service_id)
        if current is not None:
            found.append(current)
    return [_ancestor(tx, one) for one in found if not as_parent_seen(plane, one.id).hides(one)]


def _ancestor(tx: sa.Connection, service: Service) -> Ancestor:
    kept = rollable(snapshots.list_snapshots(tx, service.id))
    return Ancestor(
        service_id=service.id,
        name=service.name,
        created_at=service.created_at,
        is_gone=service.deleted_at is not None or service.failed_at is not None,
        is_fork=service.origin is not None,
        earliest=min((snapshot.taken_at for snapshot in kept), default=None),
    )


def _is_behind(tx: sa.Connection, parent: Service, last: Snapshot | None, *, one_comes: bool) -> bool:
    """Tell whether a fork as of now holds more than the newest snapshot, or there is none, and one can be taken.

    `one_comes`: a snapshot is being taken already.

    A fork of the last snapshot must hold at least what every earlier fork as of now holds (docs/compatibility.md, 27).
    The published interface says that NOW creates a snapshot. Taking one with each fork would double its cost, so it is
    taken when somebody asks for the last one.
    """
    if shown_status(parent) not in READY_OR_PAUSED:
        return False
    held = (-1, -1) if last is None else (last.timeline, lsn_number(last.end_lsn))
    if any((timeline, lsn_number(lsn)) > held for timeline, lsn in services.ends_of_forks_of_now(tx, parent.id)):
        return True
    return last is None and not one_comes


def child_of(plane: Plane, parent: Service, request: ForkRequest, now: datetime) -> Service:
    """Return the fork of a parent: what it inherits, and what the request says itself."""
    return Service(
        id="",
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
        settings=with_parameters(
            with_wal_level({}, request.wal_level or wal_level_of(parent.settings)), parameters_of(parent.settings)
        ),
        **kept(request, now),
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


def state_of(tx: sa.Connection, plan: ForkPlan, request: ForkRequest) -> ForkState:
    """Return what the operation has to know; a snapshot that the fork waits for is submitted."""
    point = plan.point
    base_id = None if point.base is None else point.base.id
    return ForkState(
        quiet=is_neutralized(request),
        parent_id=plan.parent.id,
        strategy=point.strategy,
        base_id=submit_snapshot(tx, plan.parent.id, SnapshotKind.SCHEDULED) if point.awaits_snapshot else base_id,
        target=point.target,
        base_backup_id=plan.base_backup.id if point.from_archive and plan.base_backup is not None else None,
        archive_name=server_of(plan.parent).archive_name if point.from_archive else None,
    )
