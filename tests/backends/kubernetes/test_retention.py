"""What of the archive is removed: never what a snapshot or base backup of a service is rolled forward with."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ramet.archive import layout
from ramet.archive.wal import WalArchive
from ramet.backends.kubernetes import names, retention, waking
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.site import Forks
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


def with_forks(world: World, forks: Forks) -> Place:
    place = world.backend.place
    changed = replace(place, site=replace(place.site, forks=forks))
    changed.__dict__["bucket"] = world.bucket
    return changed


@pytest.mark.parametrize("forks", Forks)
def test_wal_without_a_base_backup_is_removed_by_age_where_no_snapshot_needs_it(world: World, forks: Forks) -> None:
    place = with_forks(world, forks)
    for number in (1, 2):
        world.archive(number)
    name, now, hour = SHARED.service_id, datetime.now(UTC), timedelta(hours=1)
    retention.discard(place, name, name, now + hour)
    world.backend.restore.delete_snapshot(name, "snapshot01")
    retention.discard(place, name, name, now - hour)
    assert left(world) == ["01", "02"]
    retention.discard(place, name, name, now + hour)
    assert left(world) == ([] if forks is Forks.COPY else ["01", "02"])


def test_wal_of_a_base_backup_is_not_removed_by_age(world: World) -> None:
    place = with_forks(world, Forks.COPY)
    world.back_up()
    world.archive(2)
    name = SHARED.service_id
    retention.discard(place, name, name, datetime.now(UTC) + timedelta(minutes=1))
    assert left(world) == ["02"]


@pytest.mark.parametrize("forks", Forks)
def test_what_failed_base_backups_have_left_is_removed_by_age_while_none_is_under_way(
    world: World, forks: Forks
) -> None:
    place, name = with_forks(world, forks), SHARED.service_id
    info = world.back_up()
    failed, killed, damaged, recent = "20250101T000000", "20250102T000000", "20250103T000000", "20990101T000000"
    for backup_id in (failed, killed, damaged, recent):
        world.bucket.write(layout.part_key(name, backup_id, 0), b"x")
    world.bucket.write(layout.info_key(name, failed), replace(info, status="FAILED").dump())
    world.bucket.write(layout.info_key(name, damaged), b"")
    other = layout.part_key("otherother", failed, 0)
    world.bucket.write(other, b"x")

    def left_after(phase: str) -> list[str]:
        backup = {"metadata": {"name": f"{NAME}-base-1", "labels": names.labels_of(name)}, "status": {"phase": phase}}
        world.found.put("backups", backup)
        retention.discard(place, name, name, datetime.now(UTC))
        return sorted({one.key.split("/")[2] for one in world.bucket.objects(layout.base_prefix(name))})

    assert left_after("running") == [failed, killed, damaged, info.backup_id, recent]
    assert left_after("failed") == [damaged, info.backup_id, recent]
    assert world.bucket.size_bytes(other) == 1
