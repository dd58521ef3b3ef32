"""Snapshots that are cut at once, and that the storage works on for long."""

from collections.abc import Callable
from typing import Any

import pytest

from ramet.backends.interface.restore import SNAPSHOT_UNDER_WAY
from ramet.control import restore
from ramet.control.services import delete_service, stop_service
from ramet.errors import Unavailable
from ramet.model.replica_set import replica_status
from ramet.model.service import status_of
from ramet.model.status import OperationStatus, ReplicaSetStatus, Status
from ramet.operations.transitions import MAX_ATTEMPTS
from ramet.procedures import snapshot
from ramet.store import operations, services, snapshots
from ramet.store.tables import operation
from tests.control.replica_sets import create
from tests.worlds import World


def _working(act: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return what says so many times that the storage works on the snapshot."""
    left = [*range(times)]

    def working(*args: Any, **options: Any) -> Any:
        if left:
            raise Unavailable(SNAPSHOT_UNDER_WAY, f"The storage has worked on it for {times - left.pop()} min")
        return act(*args, **options)

    return working


@pytest.mark.parametrize("work", ["create", "fork", "replicas"])
def test_what_begins_with_a_snapshot_waits_as_long_as_the_storage_takes(
    world: World, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    def slow(part: object, name: str) -> None:
        monkeypatch.setattr(part, name, _working(getattr(part, name), MAX_ATTEMPTS + 1))

    if work == "create":
        slow(world.backend.restore, "take_snapshot")
        assert status_of(world.create()) is Status.READY
        return
    parent = world.create()
    if work == "fork":
        slow(world.backend.restore, "capture")
        assert status_of(world.fork(parent)) is Status.READY
        return
    slow(world.backend.replicas, "create")
    assert replica_status(create(world, parent)) is ReplicaSetStatus.ACTIVE


@pytest.mark.parametrize("change", [stop_service, delete_service])
def test_a_snapshot_that_is_cut_holds_up_nothing_and_is_listed_when_it_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]
) -> None:
    service = world.create()
    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "_STORED_SECONDS", 1000.0)
        patched.setattr(world.backend.restore, "take_snapshot", _working(lambda: None, 1))
        taken = restore.take_snapshot(world.plane, world.project.id, service.id, None)
        world.worker.run_until_idle()
    change(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    with world.store.write() as tx:
        assert services.holders(tx, service.id) == []
        changed = services.get_service(tx, service.id)
        tx.execute(operation.update().values(run_at=0))
    world.worker.run_until_idle()
    with world.store.read() as tx:
        known = [one.id for one in snapshots.list_snapshots(tx, service.id)]
        (asked,) = [one for one in operations.of_subject(tx, service.id) if one.id == taken.id]
    assert changed is not None
    is_deleted = change is delete_service
    assert (changed.paused, changed.deleted_at is not None) == (not is_deleted, is_deleted)
    assert ((taken.id in known), asked.status) == (not is_deleted, OperationStatus.SUCCEEDED)
