"""The servers of a service's read replica sets, which are stopped, started and deleted with it."""

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec import Struct

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import Primary, Server
from ramet.model.address import earlier_hosts_of
from ramet.model.parameters import parameters_of
from ramet.model.passwords import Secret
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service, is_dev_fork
from ramet.procedures.servers import Tools
from ramet.procedures.spec import submit
from ramet.procedures.state import Restartable
from ramet.store import operations, replica_sets, services


def set_of(tools: Tools, set_id: str) -> ReplicaSet:
    """Return a set's row; it exists as long as an operation names it."""
    with tools.store.read() as tx:
        found = replica_sets.get_set(tx, set_id)
    if found is None:
        raise AssertionError(f"BUG: replica set {set_id} has an operation but no row")
    return found


def servers_of_set(replica_set: ReplicaSet, parent: Service) -> list[Server]:
    """Return what a backend must know of a set's nodes, the one that has the set's id first."""
    return [
        Server(
            service_id=node.id,
            service_type=parent.service_type,
            environment=replica_set.environment,
            size=replica_set.size,
            host=replica_set.host,
            port=node.port,
            pg_major=parent.pg_major,
            verifier=Secret(""),
            primary=Primary(parent.id, parent.server_port or parent.port, replica_set.id, replica_set.port),
            project_id=parent.project_id,
            parameters=tuple(sorted(parameters_of(parent.settings).items())),
            earlier_hosts=earlier_hosts_of(parent.settings),
            is_dev_fork=is_dev_fork(parent),
        )
        for node in replica_set.nodes
    ]


def direct_clients(backend: Backend, replica_set: ReplicaSet, nodes: Sequence[Server]) -> None:
    """Let the balancer and the pooler of a set, if it has them, send clients to its nodes."""
    if len(nodes) > 1:
        backend.replicas.start_balancer(nodes, replica_set.port)
    if replica_set.pooler_port is not None:
        backend.poolers.start(nodes, replica_set.pooler_port)


def stop_replicas(tools: Tools, service_id: str) -> None:
    """Stop every replica of a service."""
    for server in servers_of_replicas(tools, service_id):
        tools.backend.servers.stop(server)


def servers_of_replicas(tools: Tools, service_id: str) -> list[Server]:
    """Return what a backend must know of every replica of a service that was ready once."""
    parent, sets = tools.service(service_id), _live_sets(tools, service_id)
    return [server for each in sets if each.ready_at is not None for server in servers_of_set(each, parent)]


def destroy_replicas(tools: Tools, service_id: str) -> None:
    """Remove every replica of a service from the host."""
    for each in _live_sets(tools, service_id):
        for node in each.nodes:
            tools.backend.servers.destroy(node.id)


def cancel_creations(tools: Tools, service_id: str) -> None:
    """Cancel what makes sets, or makes them again, for their service is being deleted."""
    interrupted = SPECS[ProcedureName.DELETE_REPLICAS].interrupts
    activities = [each.activity for each in _live_sets(tools, service_id) if each.activity is not None]
    creations = [one.operation_id for one in activities if one.procedure in interrupted]
    if creations:
        with tools.store.write() as tx:
            for operation_id in creations:
                operations.cancel(tx, operation_id)


def mark_sets_deleted(tx: sa.Connection, tools: Tools, service_id: str) -> None:
    """Record that the sets of a service are gone."""
    for each in replica_sets.live_sets(tx, service_id):
        replica_sets.update_set(tx, each.id, deleted_at=tools.clock(), operation_id=None)


def submit_restarts(tx: sa.Connection, service_id: str, name: ProcedureName = ProcedureName.RESTART_REPLICAS) -> None:
    """Submit that the sets of a service are started, or made again, except those that an operation works on.

    None of their nodes runs, so that a reason why they were down before is over.
    """
    for each in replica_sets.live_sets(tx, service_id):
        if each.activity is None and each.ready_at is not None:
            submit_for_set(tx, each, name, Restartable())
            replica_sets.update_set(tx, each.id, down_reason=None)


def submit_for_set(
    tx: sa.Connection, replica_set: ReplicaSet, name: ProcedureName, state: Struct, step: str = ""
) -> str:
    """Submit an operation that claims a set, and holds its service until it ends; return its id.

    It begins with `step`, by default with its first one.
    """
    operation_id = submit(tx, name, replica_set.id, state, step)
    services.add_hold(tx, replica_set.service_id, operation_id)
    replica_sets.update_set(tx, replica_set.id, operation_id=operation_id)
    return operation_id


def _live_sets(tools: Tools, service_id: str) -> list[ReplicaSet]:
    with tools.store.read() as tx:
        return replica_sets.live_sets(tx, service_id)
