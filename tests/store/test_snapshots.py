"""Snapshots as rows, and the promise that a held service loses none."""

from datetime import timedelta

from ramet.model.snapshot import SnapshotKind
from ramet.store import services, snapshots
from ramet.store.database import Store
from ramet.store.operations import submit
from tests.store.values import NOW, a_project, a_service, a_snapshot


def test_snapshots_come_back_as_they_were_oldest_first(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        later = a_snapshot(service, taken_at=NOW + timedelta(microseconds=1), kind=SnapshotKind.MANUAL, name="before")
        first = a_snapshot(service, size_bytes=2**40, next_xid=2**33)
        for snapshot in (later, first):
            snapshots.insert_snapshot(tx, snapshot)
    with store.read() as tx:
        assert snapshots.list_snapshots(tx, service.id) == [first, later]


def test_a_snapshot_that_is_kept_is_one_by_hand(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        snapshot = a_snapshot(service)
        snapshots.insert_snapshot(tx, snapshot)
        snapshots.keep_snapshot(tx, snapshot.id, "before")
    with store.read() as tx:
        (found,) = snapshots.list_snapshots(tx, service.id)
    assert (found.kind, found.name) == (SnapshotKind.MANUAL, "before")


def test_a_snapshot_that_another_operation_may_be_using_stays(store: Store) -> None:
    with store.write() as tx:
        service = a_service(tx, a_project(tx))
        snapshot = a_snapshot(service)
        snapshots.insert_snapshot(tx, snapshot)
        mine, fork = (submit(tx, name, "take", service.id, {}) for name in ("snapshot", "fork"))
        for operation_id in (mine, fork):
            services.add_hold(tx, service.id, operation_id)
        snapshots.delete_unheld(tx, service.id, [snapshot.id], mine)
        assert snapshots.list_snapshots(tx, service.id) == [snapshot]
        services.drop_holds(tx, fork)
        snapshots.delete_unheld(tx, service.id, [snapshot.id], mine)
        assert snapshots.list_snapshots(tx, service.id) == []


def test_a_snapshot_that_is_now_of_another_service_stays(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        service, before = a_service(tx, project), a_service(tx, project, port=20001)
        snapshot = a_snapshot(service)
        snapshots.insert_snapshot(tx, snapshot)
        snapshots.move_snapshots(tx, service.id, before.id)
        snapshots.delete_unheld(tx, service.id, [snapshot.id], "")
        assert [one.id for one in snapshots.list_snapshots(tx, before.id)] == [snapshot.id]


def test_all_snapshots_of_one_service_go_with_it(store: Store) -> None:
    with store.write() as tx:
        project = a_project(tx)
        gone, kept = a_service(tx, project), a_service(tx, project, port=20001)
        others = a_snapshot(kept)
        for snapshot in (a_snapshot(gone), a_snapshot(gone), others):
            snapshots.insert_snapshot(tx, snapshot)
        snapshots.delete_snapshots_of(tx, gone.id)
        assert snapshots.list_snapshots(tx, gone.id) == []
        assert snapshots.list_snapshots(tx, kept.id) == [others]
