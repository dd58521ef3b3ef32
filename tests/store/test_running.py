"""What runs on the host, counted on both databases."""

from datetime import UTC, datetime
from itertools import count

import pytest

from ramet.ids import new_id
from ramet.model.address import with_wanted_host
from ramet.model.environment import Environment
from ramet.model.procedures import ProcedureName
from ramet.model.replica_set import Node
from ramet.model.size import Size
from ramet.store import operations, replica_sets, running, services
from ramet.store.database import Store
from tests.store.test_replica_sets import a_set
from tests.store.values import a_project, a_service

NOW = datetime(2026, 1, 15, tzinfo=UTC)
SIZES = {"before": (500, 2), "after": (500, 2)}


def test_servers_that_run_or_start_count_and_others_do_not(store: Store) -> None:
    with store.write() as tx:
        before, starting = running.committed_mbs(tx), running.count_starting(tx)
        project, large = a_project(tx), Size(2000, 8)
        ports = count(20000)
        one = a_service(tx, project, name="one", port=next(ports), environment=Environment.PROD, size=large)
        two = a_service(tx, project, name="two", port=next(ports), environment=Environment.DEV, size=large)
        small, paused, gone = (
            a_service(tx, project, name=name, port=next(ports), size=Size()) for name in ("small", "paused", "gone")
        )
        for each in (one, two, small, paused):
            services.update_service(tx, each.id, ready_at=NOW)
        services.update_service(tx, paused.id, paused=True)
        services.update_service(tx, gone.id, deleted_at=NOW)
        assert running.committed_mbs(tx) - before == 8 * 1024 + 256 + 64
        names = {each.name for each in running.list_running(tx) if each.project_id == project.id}
        assert names == {"one", "two", "small"}
        assert running.count_starting(tx) == starting
        operation_id = operations.submit(tx, ProcedureName.START, "settle", paused.id, {})
        services.update_service(tx, paused.id, operation_id=operation_id)
        a_service(tx, project, name="new", port=next(ports), size=Size())
        assert running.count_starting(tx) == starting + 2
        assert running.committed_mbs(tx) - before == 8 * 1024 + 256 + 3 * 64


@pytest.mark.parametrize("name", ["start", "resize", "set_sleep", "set_wal_level"])
def test_a_paused_service_that_is_resumed_counts_with_its_replicas_until_they_are_started(
    store: Store, name: str
) -> None:
    with store.write() as tx:
        shop, busy = (a_service(tx, a_project(tx), name=name, port=port) for name, port in (("a", 20000), ("b", 20001)))
        made = a_set(tx, shop, nodes=(Node(new_id(), 20010), Node(new_id(), 20011)))
        replica_sets.update_set(tx, made.id, ready_at=NOW)
        services.update_service(tx, shop.id, ready_at=NOW, paused=True)
        services.update_service(tx, busy.id, ready_at=NOW)
        before = running.count_starting(tx)
        for one in (shop, busy):
            services.update_service(tx, one.id, operation_id=operations.submit(tx, name, "settle", one.id, SIZES))
        assert running.count_starting(tx) == before + 3
        services.update_service(tx, shop.id, operation_id=None, paused=False)
        restart = operations.submit(tx, ProcedureName.RESTART_REPLICAS, "boot", made.id, {})
        replica_sets.update_set(tx, made.id, operation_id=restart)
        assert running.count_starting(tx) == before + 2
        replica_sets.update_set(tx, made.id, down_reason="node 1 does not answer")
        assert running.count_starting(tx) == before
        replica_sets.update_set(tx, made.id, operation_id=None)
        assert running.count_starting(tx) == before


def test_a_service_that_is_restarted_because_it_was_down_counts_until_it_serves(store: Store) -> None:
    with store.write() as tx:
        shop = a_service(tx, a_project(tx), name="shop", port=20000)
        services.update_service(tx, shop.id, ready_at=NOW)
        before = running.count_starting(tx)
        restart = operations.submit(tx, ProcedureName.RESTART, "boot", shop.id, {})
        services.update_service(tx, shop.id, operation_id=restart, down_reason="it does not answer")
        assert running.count_starting(tx) == before + 1
        services.update_service(tx, shop.id, operation_id=None, down_reason=None)
        assert running.count_starting(tx) == before


def test_a_paused_service_that_is_restored_counts_with_its_replicas_until_they_are_made_again(store: Store) -> None:
    with store.write() as tx:
        shop, busy = (a_service(tx, a_project(tx), name=name, port=port) for name, port in (("a", 20000), ("b", 20001)))
        sets = [
            a_set(tx, one, nodes=(Node(new_id(), one.port + 10), Node(new_id(), one.port + 12))) for one in (shop, busy)
        ]
        for made in sets:
            replica_sets.update_set(tx, made.id, ready_at=NOW)
        for one in (shop, busy):
            services.update_service(tx, one.id, ready_at=NOW)
        starting, committed = running.count_starting(tx), running.committed_mbs(tx)
        services.update_service(tx, shop.id, paused=True)
        for one in (shop, busy):
            operations.submit(
                tx, ProcedureName.RESTORE, "capture", one.id, {"base_backup_id": None, "parent_id": one.id}
            )
        assert (running.count_starting(tx), running.committed_mbs(tx)) == (starting + 2 + 2, committed)
        for made in sets:
            rebuild = operations.submit(tx, ProcedureName.REBUILD_REPLICAS, "discard", made.id, {})
            replica_sets.update_set(tx, made.id, operation_id=rebuild)
        assert running.count_starting(tx) == starting + 2 + 4
        for made in sets:  # health found it down: its other nodes run
            replica_sets.update_set(tx, made.id, down_reason="its data is lost")
        assert running.count_starting(tx) == starting + 2 + 2


def test_a_service_that_is_being_resized_counts_with_the_larger_size(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        prod = a_service(tx, project, name="shop", environment=Environment.PROD, size=Size(500, 2))
        services.update_service(tx, prod.id, ready_at=NOW)
        before = running.committed_mbs(tx)
        for sizes in ({"before": (500, 2), "after": (500, 6)}, {"before": (500, 6), "after": (500, 2)}):
            operation_id = operations.submit(tx, ProcedureName.RESIZE, "settle", prod.id, sizes)
            services.update_service(tx, prod.id, operation_id=operation_id)
            assert running.committed_mbs(tx) - before == 4 * 1024
            (shown,) = [each for each in running.list_running(tx) if each.project_id == project.id]
            assert shown.memory_mbs == 6 * 1024


def test_services_that_are_to_get_another_host_are_found(store: Store) -> None:
    with store.write() as tx:
        moving, _other = (a_service(tx, a_project(tx), port=port) for port in (20000, 20001))
        services.update_service(tx, moving.id, settings=with_wanted_host({"wal_level": "logical"}, "db.example.com"))
        assert [each.id for each in services.that_move(tx)] == [moving.id]
        services.update_service(tx, moving.id, deleted_at=NOW)
        assert services.that_move(tx) == []


def test_who_reads_a_base_backup_is_found_until_that_is_over(store: Store) -> None:
    with store.write() as tx:
        one, other = (a_service(tx, a_project(tx), port=port) for port in (20000, 20001))
        assert not any(services.has_copies_under_way(tx, each.id) for each in (one, other))
        operations.submit(tx, ProcedureName.RESTORE, "capture", one.id, {"base_backup_id": None, "parent_id": one.id})
        assert not any(services.has_copies_under_way(tx, each.id) for each in (one, other))
        reads = {"base_backup_id": "20260115T000000", "parent_id": one.id}
        operations.submit(tx, ProcedureName.RESTORE, "capture", other.id, reads)
        assert [services.has_copies_under_way(tx, each.id) for each in (one, other)] == [True, False]


def test_who_reads_a_base_backup_is_found_beside_an_operation_with_a_character_zero(store: Store) -> None:
    with store.write() as tx:
        moving, one = (a_service(tx, a_project(tx), port=port) for port in (20000, 20001))
        operations.submit(tx, ProcedureName.MOVE, "begin", moving.id, {"certificate_authority": "PEM\0"})
        operations.submit(tx, ProcedureName.DRILL, "capture", one.id, {"base_backup_id": "20260115T000000"})
        assert [services.has_copies_under_way(tx, each.id) for each in (moving, one)] == [False, True]
