"""What follows a service: the servers of its read replica sets, which stop, start and go with it."""

import sqlalchemy as sa

from ramet.backends.interface.values import Primary, Server
from ramet.model.credentials import Secret
from ramet.model.replica import ReplicaSet
from ramet.model.service import Service
from ramet.operations.procedure import request_cancel, submit
from ramet.procedures.servers import Tools
from ramet.store import replicas, services

RESTART = "restart_replicas"
RESTART_BEGINS = "boot"


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
            primary=Primary(parent.id, parent.port),
        )
        for node in replica_set.nodes
    ]


def stop_followers(tools: Tools, service_id: str) -> None:
    """Stop every replica of a service that no set's operation works on."""
    parent = tools.service(service_id)
    with tools.store.read() as tx:
        sets = replicas.live_sets(tx, service_id)
    for each in sets:
        if each.ready_at is not None:
            for server in servers_of_set(each, parent):
                tools.backend.servers.stop(server)


def destroy_followers(tools: Tools, service_id: str) -> None:
    """Remove every replica of a service from the host."""
    with tools.store.read() as tx:
        sets = replicas.live_sets(tx, service_id)
    for each in sets:
        for node in each.nodes:
            tools.backend.servers.destroy(node.id)


def call_off_births(tools: Tools, service_id: str) -> None:
    """Ask for sets that are being created to be undone: their service goes."""
    with tools.store.read() as tx:
        sets = replicas.live_sets(tx, service_id)
    births = [one.activity for one in sets if one.activity is not None and one.activity.procedure == "create_replicas"]
    if births:
        with tools.store.write() as tx:
            for birth in births:
                request_cancel(tx, birth.operation_id)


def forget_followers(tx: sa.Connection, tools: Tools, service_id: str) -> None:
    """Record that the sets of a service are gone."""
    for each in replicas.live_sets(tx, service_id):
        replicas.update_set(tx, each.id, deleted_at=tools.clock(), operation_id=None)


def submit_restarts(tx: sa.Connection, service_id: str) -> None:
    """Submit that the sets of a service are started, those left out that an operation works on."""
    for each in replicas.live_sets(tx, service_id):
        if each.activity is None and each.ready_at is not None:
            submit_for_set(tx, each, RESTART, RESTART_BEGINS, {})


def submit_for_set(
    tx: sa.Connection, replica_set: ReplicaSet, procedure: str, first: str, state: dict[str, object]
) -> str:
    """Submit an operation that claims a set, and holds its service until it ends; return its id."""
    operation_id = submit(tx, procedure, first, replica_set.id, state)
    services.add_hold(tx, replica_set.service_id, operation_id)
    replicas.update_set(tx, replica_set.id, operation_id=operation_id)
    return operation_id
