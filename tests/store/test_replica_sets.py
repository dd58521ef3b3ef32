"""Rows of read replica sets, on SQLite and on PostgreSQL."""

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.replica_set import Node, ReplicaSet
from ramet.model.service import Service
from ramet.model.size import Size
from ramet.model.status import FAILED_SHOWN_FOR, OperationStatus
from ramet.store import replica_sets, services
from ramet.store.database import Store
from ramet.store.operations import submit
from tests.store.values import NOW, a_project, a_service


def a_set(tx: sa.Connection, service: Service, **columns: object) -> ReplicaSet:
    set_id = new_id()
    plain = ReplicaSet(
        id=set_id,
        project_id=service.project_id,
        service_id=service.id,
        name="reports",
        environment=Environment.DEV,
        size=Size(500, 2),
        nodes=(Node(set_id, 20001), Node(new_id(), 20002)),
        host="localhost",
        port=20003,
        created_at=NOW,
    )
    made = replace(plain, **columns)  # type: ignore[arg-type]
    replica_sets.insert_set(tx, made)
    return made


def test_a_set_comes_back_as_it_was_stored(store: Store) -> None:
    with store.write() as tx:
        made = a_set(tx, a_service(tx, a_project(tx)))
    with store.read() as tx:
        assert replica_sets.get_set(tx, made.id) == made
        assert replica_sets.get_set(tx, new_id()) is None


def test_sets_are_listed_by_service_oldest_first(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        first, second = a_service(tx, project), a_service(tx, project, port=20010)
        ports = {"nodes": (Node("a000000000", 20021),), "port": 20021}
        later = a_set(tx, first, created_at=NOW + timedelta(seconds=1))
        earlier = a_set(tx, first, **ports)
        other = a_set(tx, second, nodes=(Node("b000000000", 20022),), port=20022)
    with store.read() as tx:
        found = replica_sets.list_of_project(tx, project.id, NOW)
        assert found == {first.id: [earlier, later], second.id: [other]}
        assert replica_sets.list_of_service(tx, first.id, NOW) == [earlier, later]
        assert replica_sets.live_sets(tx, second.id) == [other]


def test_deleted_sets_are_not_listed_and_failed_ones_for_a_while(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        deleted, failed = a_set(tx, service), a_set(tx, service)
        replica_sets.update_set(tx, deleted.id, deleted_at=NOW)
        replica_sets.update_set(tx, failed.id, failed_at=NOW, failure="No room.")
    with store.read() as tx:
        (shown,) = replica_sets.list_of_service(tx, service.id, NOW)
        assert (shown.id, shown.failure) == (failed.id, "No room.")
        assert replica_sets.list_of_service(tx, service.id, NOW + FAILED_SHOWN_FOR) == []
        assert replica_sets.live_sets(tx) == []


def test_their_ports_are_used_as_long_as_they_live(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx), port=20000, pooler_port=20005)
        made = a_set(tx, service)
        replica_sets.update_set(tx, made.id, pooler_port=20004)
        assert services.used_ports(tx) == {20000, 20001, 20002, 20003, 20004, 20005}
        replica_sets.update_set(tx, made.id, deleted_at=NOW)
        assert services.used_ports(tx) == {20000, 20005}


def test_a_set_shows_the_operation_that_claims_it(store: Store) -> None:
    with store.write() as tx:
        made = a_set(tx, a_service(tx, a_project(tx)))
        operation_id = submit(tx, "resize_replicas", "stop", made.id, {})
        replica_sets.update_set(tx, made.id, operation_id=operation_id)
        claimed = replica_sets.get_set(tx, made.id)
        assert claimed is not None
        assert claimed.activity is not None
        assert (claimed.activity.procedure, claimed.activity.status) == ("resize_replicas", OperationStatus.RUNNING)
        replica_sets.finish_operation(tx, made.id, "another", down_reason="not ours to say")
        replica_sets.finish_operation(tx, made.id, operation_id, down_reason=None)
        assert replica_sets.get_set(tx, made.id) == made


def test_a_set_knows_that_its_service_is_paused(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        made = a_set(tx, service)
        services.update_service(tx, service.id, paused=True)
        assert replica_sets.get_set(tx, made.id) == replace(made, paused=True)
