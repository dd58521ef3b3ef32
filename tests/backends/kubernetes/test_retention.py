"""What of the archive is removed: never what a snapshot or base backup of a service is rolled forward with."""

import pytest

from ramet.archive import layout
from ramet.archive.wal import WalArchive
from ramet.backends.kubernetes import names, waking
from tests.backends.kubernetes.past_world import NAME, STOPPED, World
from tests.backends.kubernetes.servers import SHARED


def left(world: World) -> list[str]:
    """Return the segments that the archive has, without their timeline."""
    return sorted(name[-2:] for name in WalArchive(world.bucket, SHARED.service_id).sizes())


def test_wal_that_only_older_snapshots_needed_is_removed(world: World) -> None:
    for number in (1, 2, 3):
        world.archive(number)
    assert world.backend.restore.discard_wal(SHARED.service_id, world.base) == 1
    assert world.backend.restore.discard_wal(SHARED.service_id, world.base) == 0


def test_wal_that_snapshots_need_outlives_the_archive_of_a_service(world: World) -> None:
    info = world.back_up()
    for number in (1, 2, 3):
        world.archive(number)
    for _ in range(2):
        world.backend.archive.remove(SHARED)
    assert world.bucket.read(layout.info_key(SHARED.service_id, info.backup_id)) is None
    assert left(world) == ["02", "03"]


def test_wal_that_a_snapshot_needs_which_is_being_taken_is_not_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = {**STOPPED, "start_lsn": "0/3000028", "end_lsn": "0/3000028", "at": "2026-01-01T00:00:01.000000Z"}
    monkeypatch.setattr(waking, "position_of", lambda place, server: position)
    world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    del world.found.objects["volumesnapshots", f"{NAME}-snapshot02"]["metadata"]["annotations"][names.FACTS_ANNOTATION]
    world.backend.restore.delete_snapshot(SHARED.service_id, "snapshot01")
    for number in (2, 3):
        world.archive(number)
    world.backend.archive.remove(SHARED)
    assert left(world) == ["03"]


def test_nothing_is_left_in_the_archive_of_a_removed_service(world: World) -> None:
    world.back_up()
    world.archive(2)
    world.backend.servers.destroy(SHARED.service_id)
    assert left(world) == ["02"], "its base backup can be rolled forward"
    for _ in range(2):
        world.backend.archive.remove(SHARED)
    assert list(world.bucket.objects(f"{SHARED.service_id}/")) == []


def test_the_wal_of_a_destroyed_service_without_a_base_backup_goes_with_it(world: World) -> None:
    world.archive(2)
    world.backend.servers.destroy(SHARED.service_id)
    assert list(world.bucket.objects(f"{SHARED.service_id}/")) == []
