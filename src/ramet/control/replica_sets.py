"""The verbs over the read replica sets of a service. Each locks the service, which keeps it from being deleted."""

from dataclasses import dataclass

import sqlalchemy as sa

from ramet.control.admission import capacity_of, check_admission, wanted_for_nodes, wanted_to_resize_set
from ramet.control.lookup import CHANGEABLE, check_writable, find_service, read_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.poolers import check_database, pooler_ports, submit_pooler, under_way
from ramet.control.ports import endpoint_host, free_ports, reserve_ports
from ramet.control.quotas import check_growth
from ramet.control.sleep import check_stays_awake
from ramet.errors import Invalid, NotFound, WrongState
from ramet.ids import is_id, new_id
from ramet.model.environment import Environment
from ramet.model.names import check_name
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.replica_set import NODES_LIMIT, Node, ReplicaSet, replica_status
from ramet.model.service import Service, is_being_deleted, is_visible, status_of
from ramet.model.size import Size, more_than, parse_size
from ramet.model.status import READY_OR_PAUSED, ReplicaSetStatus, Status
from ramet.procedures.replicas import submit_for_set
from ramet.procedures.servers import server_of
from ramet.procedures.state import DeleteReplicasState, ResizeReplicasState, Restartable, stored_size
from ramet.store import operations, replica_sets

Amount = str | int


@dataclass(frozen=True)
class ReplicaSetRequest:
    """A new set of `nodes` equal servers."""

    name: str
    nodes: int
    cpu_millis: Amount
    memory_gbs: Amount


def list_sets(plane: Plane, project_id: str, service_id: str) -> list[ReplicaSet]:
    """Return the sets of a service, oldest first."""
    return list(read_service(plane, project_id, service_id).replica_sets)


def create_set(plane: Plane, project_id: str, service_id: str, request: ReplicaSetRequest) -> ReplicaSet:
    """Accept a new set; with several nodes its endpoint takes them in turns."""
    size = _parse_size(plane, request.cpu_millis, request.memory_gbs)
    if request.nodes > 1:
        plane.backend.poolers.check()
    primary = server_of(read_service(plane, project_id, service_id))
    plane.backend.replicas.check_room(primary)  # it may read a whole tree: no transaction waits for it
    free, capacity = free_ports(plane, NODES_LIMIT + 1), capacity_of(plane)
    with plane.change() as tx:
        parent = _ready(plane, tx, project_id, service_id, "createReplicaSet")
        check_stays_awake(parent, "read replicas")
        _check_nodes(tx, parent, request.nodes)
        check_growth(plane, tx, parent, more_than(size, Size(), request.nodes))
        wanted = wanted_for_nodes(request.nodes, size, parent.environment)
        check_admission(plane, tx, capacity, project_id, wanted)
        ports = reserve_ports(plane, tx, free, request.nodes + (request.nodes > 1))
        made = _plan(plane, parent, request, size, ports)
        replica_sets.insert_set(tx, made)
        submit_for_set(tx, made, ProcedureName.CREATE_REPLICAS, Restartable())
        return _find(plane, tx, parent, made.id)


def delete_set(plane: Plane, project_id: str, service_id: str, set_id: str) -> None:
    """Accept the deletion of a set; one that is being created, or made again, is canceled. Asking twice is no error.

    That is accepted also while an operation works on the service: it waits for the set, which may wait for storage.
    """
    with plane.change() as tx:
        parent = find_service(plane, tx, project_id, service_id, lock=True)
        found = _find(plane, tx, parent, set_id)
        if replica_status(found) is ReplicaSetStatus.DELETING:
            return
        after, activity = None, found.activity
        is_canceled = activity is not None and activity.procedure in SPECS[ProcedureName.DELETE_REPLICAS].interrupts
        is_free = status_of(parent) in CHANGEABLE and parent.activity is None
        if is_being_deleted(parent) or not (is_free or is_canceled):
            raise wrong_state(parent, "deleteReplicaSet", READY_OR_PAUSED)
        if activity is not None and is_canceled:
            after = activity.operation_id
        else:
            _check_idle(found, "deleteReplicaSet")
        _check_pooler_idle(tx, found, "deleteReplicaSet")
        submit_for_set(tx, found, ProcedureName.DELETE_REPLICAS, DeleteReplicasState(after=after))
        if after is not None:  # after the set's own row was locked: its steps record in this order
            operations.cancel(tx, after)


def resize_set(
    plane: Plane, project_id: str, service_id: str, set_id: str, cpu_millis: Amount, memory_gbs: Amount
) -> ReplicaSet:
    """Accept another size for every node of a set; it restarts for that."""
    size, capacity = _parse_size(plane, cpu_millis, memory_gbs), capacity_of(plane)
    with plane.change() as tx:
        parent = _ready(plane, tx, project_id, service_id, "resizeReplicaSet")
        found = _find(plane, tx, parent, set_id)
        _check_idle(found, "resizeReplicaSet")
        _check_pooler_idle(tx, found, "resizeReplicaSet")
        check_growth(plane, tx, parent, more_than(size, found.size, len(found.nodes)))
        check_admission(plane, tx, capacity, project_id, wanted_to_resize_set(found, size))
        replica_sets.update_set(tx, set_id, cpu_millis=size.cpu_millis, memory_gbs=size.memory_gbs)
        submit_for_set(tx, found, ProcedureName.RESIZE_REPLICAS, ResizeReplicasState(before=stored_size(found.size)))
        return _find(plane, tx, parent, set_id)


def set_environment(
    plane: Plane, project_id: str, service_id: str, set_id: str, environment: Environment
) -> ReplicaSet:
    """Declare a set PROD or DEV; memory settings that depend on it change at the next start."""
    with plane.store.write() as tx:
        parent = find_service(plane, tx, project_id, service_id, lock=True)
        found = _find(plane, tx, parent, set_id)
        replica_sets.update_set(tx, found.id, environment=environment.value)
        return _find(plane, tx, parent, set_id)


def enable_pooler(plane: Plane, project_id: str, service_id: str, set_id: str) -> str | None:
    """Request a pooler for a set; return the operation that starts it, None when there is nothing to do."""
    plane.backend.poolers.check()
    check_database(plane, project_id, service_id)
    free = pooler_ports(plane, set_id)
    with plane.change() as tx:
        parent = _ready(plane, tx, project_id, service_id, "enablePooler")
        found = _find(plane, tx, parent, set_id)
        if found.pooler_port is not None:
            return under_way(tx, found.id, ProcedureName.REPLICA_POOLER)
        _check_idle(found, "enablePooler")
        replica_sets.update_set(tx, found.id, pooler_port=reserve_ports(plane, tx, free)[0])
        return submit_pooler(tx, parent.id, found.id, enabling=True)


def disable_pooler(plane: Plane, project_id: str, service_id: str, set_id: str) -> str | None:
    """Remove the pooler of a set; return the operation, None when there is nothing to do."""
    with plane.change() as tx:
        parent = _ready(plane, tx, project_id, service_id, "disablePooler")
        found = _find(plane, tx, parent, set_id)
        if found.pooler_port is None:
            return under_way(tx, found.id, ProcedureName.REPLICA_POOLER)
        _check_idle(found, "disablePooler")
        replica_sets.update_set(tx, found.id, pooler_port=None)
        return submit_pooler(tx, parent.id, found.id, enabling=False)


def _plan(plane: Plane, parent: Service, request: ReplicaSetRequest, size: Size, ports: list[int]) -> ReplicaSet:
    set_id = new_id()
    ids = [set_id, *(new_id() for _ in range(request.nodes - 1))]
    return ReplicaSet(
        id=set_id,
        project_id=parent.project_id,
        service_id=parent.id,
        name=check_name(request.name),
        environment=parent.environment,
        size=size,
        nodes=tuple(Node(node_id, port) for node_id, port in zip(ids, ports, strict=False)),
        host=plane.backend.host.address(set_id, parent.project_id, endpoint_host(plane, parent.pg_major)),
        port=ports[-1],
        created_at=plane.clock(),
    )


def _ready(plane: Plane, tx: sa.Connection, project_id: str, service_id: str, verb: str) -> Service:
    parent = find_service(plane, tx, project_id, service_id, lock=True)
    check_writable(parent, verb)
    if status_of(parent) is not Status.READY:
        raise wrong_state(parent, verb, (Status.READY,))
    return parent


def _find(plane: Plane, tx: sa.Connection, parent: Service, set_id: str) -> ReplicaSet:
    found = replica_sets.get_set(tx, set_id) if is_id(set_id) else None
    if found is None or found.service_id != parent.id or not is_visible(found, plane.clock()):
        raise NotFound("REPLICA_SET_NOT_FOUND", "no read replica set with that id exists", f"id {set_id[:64]!r}")
    return found


def _check_idle(replica_set: ReplicaSet, verb: str) -> None:
    status = replica_status(replica_set)
    if replica_set.activity is not None or replica_set.failed_at is not None:
        raise WrongState(
            "INVALID_STATE",
            f"Read replica set {replica_set.id} is {status}, and {verb} needs it to be active",
            "Wait until its operation is finished, then try again.",
        )


def _check_pooler_idle(tx: sa.Connection, replica_set: ReplicaSet, verb: str) -> None:
    if operations.under_way(tx, replica_set.id, ProcedureName.REPLICA_POOLER):
        raise WrongState(
            "INVALID_STATE",
            f"The pooler of read replica set {replica_set.id} is being changed, and {verb} needs that to be over",
            "Wait until its operation is finished, then try again.",
        )


def _check_nodes(tx: sa.Connection, parent: Service, nodes: int) -> None:
    left = NODES_LIMIT - sum(len(each.nodes) for each in replica_sets.live_sets(tx, parent.id))
    if left <= 0:
        wrong = f"Service {parent.id} has {NODES_LIMIT} replica nodes, the maximum: no more can be added (got {nodes})"
        raise Invalid("INVALID_NODES", wrong, "Delete a read replica set first.")
    if not 1 <= nodes <= left:
        raise Invalid(
            "INVALID_NODES",
            f"nodes must be between 1 and {left} (got {nodes})",
            f"A service has at most {NODES_LIMIT} replica nodes.",
        )


def _parse_size(plane: Plane, cpu_millis: Amount, memory_gbs: Amount) -> Size:
    size = parse_size(cpu_millis, memory_gbs, Size(), plane.backend.host.size())
    if size.shared:
        raise Invalid("INVALID_SIZE", "A read replica set needs its own size, not 'shared'", "Send amounts.")
    return size
