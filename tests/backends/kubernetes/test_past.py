"""Forks as of past times, over an API server in memory: where recovery is to stop, and what its job says."""

import json
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo
from ramet.backends.interface.values import Source
from ramet.backends.kubernetes import names, past, snapshots, waking
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.resources import Cluster
from ramet.backends.kubernetes.site import GIB, Forks
from ramet.backends.kubernetes.store_access import store_access
from ramet.errors import Failed, Invalid, Unavailable, Unseen
from ramet.model.snapshot import Snapshot, SnapshotKind
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.past_world import CONTROL, FORK, FORKED, NAME, SECOND, World, past_world
from tests.backends.kubernetes.servers import SHARED


def test_recovery_stops_after_the_last_transaction_that_ended_by_the_target(world: World) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    captured = [world.backend.restore.capture(FORK, world.source(2 * SECOND)) for _ in range(2)]
    assert captured[0] == captured[1]
    assert world.recovery()["recoveryTarget"] == {"targetLSN": "0/02000100", "exclusive": False}
    assert world.recovery()["volumeSnapshots"]["storage"]["name"] == f"{NAME}-snapshot01"
    assert captured[0] is not None
    facts = captured[0].facts
    assert (facts["cut"]["last_included"]["xid"], facts["cut"]["first_excluded"]["xid"]) == (700, 701)
    assert facts["segments"] == ["000000010000000000000002"]
    assert "was read with its checksum" in facts["checks"][0]
    assert ("pods", names.reader_name(FORK.service_id)) not in world.found.objects


def test_without_a_transaction_before_the_target_recovery_stops_at_the_snapshot(world: World) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", 3 * SECOND))
    world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert world.recovery()["recoveryTarget"] == {"targetLSN": "0/2000100", "exclusive": True}


def test_a_target_after_the_last_transaction_of_a_paused_service_is_its_last_state(world: World) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND))
    world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert "recovery" not in world.found.objects["clusters", FORKED]["spec"]["bootstrap"]
    assert ("volumesnapshots", f"{FORKED}-seed") in world.found.objects


@pytest.mark.parametrize("forks", [Forks.ADOPT, Forks.RECOVER])
def test_a_fork_of_the_last_state_is_captured_as_before_by_a_second_call(tmp_path: Path, forks: Forks) -> None:
    with past_world(tmp_path, forks=forks) as world:
        world.archive(2)
        world.commits((700, "0/02000100", SECOND))
        captured = [world.backend.restore.capture(FORK, world.source(2 * SECOND)) for _ in range(2)]
        assert captured[0] is not None
        assert captured[0] == captured[1]


@pytest.mark.parametrize("forks", [Forks.ADOPT, Forks.RECOVER])
def test_while_storage_works_on_the_last_state_its_wal_is_not_read_again(tmp_path: Path, forks: Forks) -> None:
    with past_world(tmp_path, forks=forks) as world:
        world.archive(2)
        world.commits((700, "0/02000100", SECOND))
        world.found.snapshots_at_once = False
        source = world.source(2 * SECOND)
        with pytest.raises(Unavailable, match="has worked on"):
            world.backend.restore.capture(FORK, source)
        before = len(world.found.requests)
        assert world.backend.copies.make(FORK, source) is None
        with pytest.raises(Unavailable, match="has worked on"):
            world.backend.restore.capture(FORK, source)
        assert not [path for _, path in world.found.requests[before:] if "/pods" in path]


def size_of_fork(world: World) -> str:
    return str(world.found.objects["persistentvolumeclaims", f"{FORKED}-1"]["spec"]["resources"]["requests"]["storage"])


def test_a_fork_of_a_deleted_service_has_room_for_its_base_backup(world: World) -> None:
    info = world.back_up(size_bytes=100 * GIB)
    world.archive(2)
    world.backend.servers.destroy(SHARED.service_id)
    world.backend.restore.capture(FORK, Source(SHARED, base_backup_id=info.backup_id))
    assert size_of_fork(world) == "150Gi"


@pytest.mark.parametrize(("forks", "after"), [(Forks.ADOPT, None), (Forks.RECOVER, None), (Forks.ADOPT, 2 * SECOND)])
def test_a_fork_of_a_lost_service_is_as_large_as_its_snapshot_needs(
    tmp_path: Path, forks: Forks, after: timedelta | None
) -> None:
    with past_world(tmp_path, forks=forks) as world:
        world.archive(2)
        world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
        taken = world.found.objects["volumesnapshots", f"{NAME}-snapshot01"]
        world.found.put("volumesnapshots", {**taken, "status": {**taken["status"], "restoreSize": "12Gi"}})
        world.found.remove("clusters", NAME)
        target = None if after is None else world.base.taken_at + after
        world.backend.restore.capture(FORK, Source(SHARED, paused=True, snapshot_id="snapshot01", target=target))
        assert size_of_fork(world) == "12Gi"


def test_the_first_missing_segment_is_named(world: World) -> None:
    world.archive(2)
    world.archive(4)
    known = [
        Snapshot(name, SHARED.service_id, SnapshotKind.SCHEDULED, at, lsn, lsn, 1, 700, 9)
        for name, at, lsn in (
            ("snapshot01", world.base.taken_at, "0/2000100"),
            ("snapshot02", world.base.taken_at + SECOND, "0/4000100"),
        )
    ]
    (gap,) = world.backend.restore.gaps(SHARED.service_id, known)
    assert gap.reason == "WAL segment 000000010000000000000003 is missing from the archive"
    assert (gap.begins_at, gap.ends_at) == (known[0].taken_at, known[1].taken_at)
    world.archive(3)
    assert list(world.backend.restore.gaps(SHARED.service_id, known)) == []


def test_damaged_wal_is_said_before_anything_is_made(world: World) -> None:
    world.archive(2)
    world.bucket.write(layout.wal_key(SHARED.service_id, "000000010000000000000002"), b"no gzip")
    with pytest.raises(Failed) as failed:
        world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert failed.value.code == "ARCHIVE_DAMAGED"
    assert ("clusters", FORKED) not in world.found.objects


def test_what_ends_a_recovery_job_is_read_from_its_log_and_said(world: World) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    captured = world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert captured is not None
    world.found.remove("pods", f"{FORKED}-1")
    labels = {**names.labels_of(FORK.service_id), names.JOB_LABEL: "snapshot-recovery"}
    job = {"metadata": {"name": f"{FORKED}-1-snapshot-recovery-x", "labels": labels}}
    world.found.put("pods", {**job, "status": {"phase": "Running"}})
    assert world.backend.restore.recover(FORK, captured, 0).facts is None
    fatal = {"error_severity": "FATAL", "message": "recovery ended before configured recovery target was reached"}
    lines = ["no JSON", json.dumps({"level": "info", "record": fatal}), json.dumps({"level": "error", "msg": "gone"})]
    world.found.answer = lambda pod, command, stdin: ("\n".join(lines), "", 0)
    world.found.put("pods", {**job, "status": {"phase": "Failed"}})

    eventually(lambda: place_sees(world, "Failed"))
    with pytest.raises(Failed) as failed:
        world.backend.restore.recover(FORK, captured, 0)
    assert failed.value.details == fatal["message"]


def place_sees(world: World, phase: str) -> bool:
    return any(one.status.phase == phase for one in world.backend.place.pods.of_service(FORK.service_id))


def test_a_snapshot_has_what_was_committed_when_it_was_cut_by_the_clock_of_the_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = iter(
        {"timeline": 1, "start_lsn": lsn, "end_lsn": lsn, "next_xid": xid, "size_bytes": 9, "at": at}
        for lsn, xid, at in (
            ("0/2000028", 700, "2026-01-01T00:00:01.000000Z"),
            ("0/3000028", 701, "2026-01-01T00:00:02.000000Z"),
            ("0/4000028", 702, "2026-01-01T00:09:00.000000Z"),
        )
    )
    monkeypatch.setattr(waking, "position_of", lambda place, server: next(positions))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it was cut long ago"))
    world.found.snapshots_at_once = False
    asked = [(SHARED, "snapshot02", False), (SHARED, "snapshot02", False), (SHARED, "snapshot02", True)]
    for one in asked:
        with pytest.raises(Unavailable) as late:
            world.backend.restore.take_snapshot(*one)
        assert (late.value.code, "has worked on" in late.value.message) == ("SNAPSHOT_UNDER_WAY", True)
    taken = world.found.objects["volumesnapshots", f"{NAME}-snapshot02"]
    world.found.put("volumesnapshots", {**taken, "status": {**taken["status"], "readyToUse": True}})
    facts = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    assert facts is not None
    assert (facts.taken_at.isoformat(), facts.end_lsn) == ("2026-01-01T00:00:02+00:00", "0/3000028")
    assert facts.next_xid == 700, "what was committed while it was cut may be written since"
    for number in (1, 2, 3):
        world.archive(number)
    assert world.backend.restore.discard_wal(SHARED.service_id, facts) == 1, "it ends in segment 2 or 3"


def test_nothing_is_noted_with_a_snapshot_of_a_server_that_cannot_be_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: object, server: object) -> None:
        raise Unseen("KUBERNETES_UNREACHABLE", "The API server cannot be asked now")

    world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    taken = world.found.objects["volumesnapshots", f"{NAME}-snapshot02"]
    del taken["metadata"]["annotations"][names.FACTS_ANNOTATION]
    monkeypatch.setattr(waking, "position_of", fail)
    with pytest.raises(Unseen):
        world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    assert names.FACTS_ANNOTATION not in taken["metadata"]["annotations"]


def test_a_snapshot_that_fails_is_not_waited_for_as_long_as_one_that_is_slow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_FAILING_SECONDS", 0.2)
    world.found.put("volumesnapshots", {
        "metadata": {"name": f"{NAME}-snapshot02", "labels": names.labels_of(SHARED.service_id)},
        "status": {"error": {"message": "class not found"}},
    })  # fmt: skip
    with pytest.raises(Unavailable) as failed:
        world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    assert failed.value.details == "class not found"


def test_all_of_a_stopped_service_is_archived_once_its_last_segment_is(world: World) -> None:
    archive = world.backend.archive
    info = BackupInfo(
        "20260101T000000", "cloud", 1, 180000, 1, world.base.taken_at, world.base.taken_at, "0/1000028", "0/1000100",
        "000000010000000000000001", "000000010000000000000001", 9, "",
    )  # fmt: skip
    world.bucket.write(layout.info_key(SHARED.service_id, info.backup_id), info.dump())
    stopped = {names.HIBERNATION: "on"}  # as by an earlier release
    world.backend.place.api.patch(Cluster, NAME, {"metadata": {"annotations": stopped}})
    assert archive.maintain(SHARED, paused=True, timeout_seconds=1).archived_until is None
    world.archive(2)
    state = archive.maintain(SHARED, paused=True, timeout_seconds=1)
    assert state.base_taken_at == info.end_time
    assert state.archived_until is not None
    assert [base.id for base in archive.holdings(SHARED).base_backups] == [info.backup_id]
    world.backend.servers.destroy(SHARED.service_id)
    assert world.bucket.read(layout.info_key(SHARED.service_id, info.backup_id)), "the archive outlives its service"
    archive.discard(SHARED, info.end_time)
    assert [base.id for base in archive.holdings(SHARED).base_backups] == [info.backup_id]


def test_what_a_server_wrote_while_it_stopped_is_archived_with_its_last_segment(world: World) -> None:
    def archived_until() -> datetime | None:
        return archive.maintain(SHARED, paused=True, timeout_seconds=1).archived_until

    archive = world.backend.archive
    world.back_up()
    world.control = CONTROL.replace("0/3000028", "0/5000028")
    world.backend.servers.stop(SHARED)
    asked = len(world.found.requests)
    for number in (2, 3):
        world.archive(number)
    for _ in range(3):
        assert archived_until() is None, "segment 4 is missing"
    world.archive(4)
    assert archived_until() is not None
    assert sum(path.endswith("/exec") for _, path in world.found.requests[asked:]) == 1, "it is read once"
    assert not [name for kind, name in world.found.objects if kind == "pods"]
    world.backend.servers.start(SHARED)
    world.control = CONTROL.replace("shut down", "in production")
    world.backend.servers.stop(SHARED)
    for _ in range(3):
        KubernetesBackend(world.backend.place).archive.maintain(SHARED, paused=True, timeout_seconds=1)
    after_kill = KubernetesBackend(world.backend.place).archive.maintain(SHARED, paused=True, timeout_seconds=1)
    assert after_kill.archived_until is None, "the last segment of a server that was killed is not known"


def test_without_an_archive_a_past_time_is_refused_with_the_remedy() -> None:
    with in_cluster() as (_, place):
        backend = KubernetesBackend(place)
        source = Source(SHARED, snapshot_id="snapshot01", target=datetime.fromisoformat("2026-11-25T00:00:00Z"))
        with pytest.raises(Invalid, match="Without an archive") as refused:
            backend.restore.check_fork(source, None)
        assert "RAMET_ARCHIVE_URL" in refused.value.details


def test_pods_reach_the_archive_with_the_keys_and_the_endpoint_of_this_process() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_ENDPOINT_URL": "http://store", "HOME": "/none",
        "AWS_SHARED_CREDENTIALS_FILE": "/none", "AWS_CONFIG_FILE": "/none",
    }  # fmt: skip
    found = store_access("s3://bucket/here/", environ)
    assert found is not None
    assert (found.url, found.endpoint, found.key and found.key.reveal()) == ("s3://bucket/here", "http://store", "key")
    del environ["AWS_ACCESS_KEY_ID"]
    by_role = store_access("s3://bucket", environ)
    assert by_role is not None
    assert by_role.key_id is None
    with pytest.raises(Invalid):
        store_access("file:///mnt", environ)
    assert store_access("", environ) is None


def brought(world: World, source: Source) -> list[str]:
    """Bring WAL to its reader until all is there; return what was said, and let its pod list what it got."""
    answer, marks = world.found.answer, list[str]()

    def unpack(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        if command[0] == "ls":
            return "\n".join(marks), "", 0
        if "unpack" in command:
            marks.append(f"{command[-2].rpartition('/')[2]}.{command[-1]}")
        return answer(pod, command, stdin)

    world.found.answer = unpack
    said: list[str] = []
    while (one := past.bring(world.backend.place, FORK, source, _base(world), -1.0)) is not None:
        said.append(one)
    return said


def _base(world: World) -> past.Base:
    return past.base_of_snapshot(world.backend.place, SHARED.service_id, "snapshot01")


def _unpacked(world: World) -> int:
    return sum(path.endswith("/exec") for _, path in world.found.requests)


def test_wal_is_brought_to_its_reader_in_steps_and_not_again_by_another_process(world: World) -> None:
    for number in (2, 3, 4):
        world.archive(number)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    assert brought(world, world.source(2 * SECOND)) == [
        f"{n} of 3 archived WAL segments were brought to the pod that reads them" for n in (1, 2)
    ]
    before = _unpacked(world)
    assert world.backend.restore.capture(FORK, world.source(2 * SECOND)) is not None
    listed = 1
    assert _unpacked(world) == before + listed


def test_a_reader_that_an_earlier_release_has_made_is_not_changed(world: World) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    brought(world, world.source(2 * SECOND))
    world.found.refused = {"pods": 422}  # another size of its directory
    assert world.backend.restore.capture(FORK, world.source(2 * SECOND)) is not None


def test_a_segment_of_an_earlier_timeline_is_brought_again_as_that_of_the_newest_one(world: World) -> None:
    world.archive(2)
    brought(world, world.source(2 * SECOND))
    world.archive(2, timeline=2)
    world.commits((700, "0/02000100", SECOND), (701, "0/02000200", 3 * SECOND))
    before = _unpacked(world)
    assert world.backend.restore.capture(FORK, world.source(2 * SECOND)) is not None
    listed_brought_and_read = 3
    assert _unpacked(world) == before + listed_brought_and_read


def test_a_reader_that_has_ended_is_made_again(world: World) -> None:
    world.archive(2)
    brought(world, world.source(2 * SECOND))
    name = names.reader_name(FORK.service_id)
    world.found.put("pods", {**world.found.objects["pods", name], "status": {"phase": "Failed"}})
    (said,) = brought(world, world.source(2 * SECOND))
    assert said.startswith(f"the pod that reads WAL starts: {name} is Failed")
    assert world.found.objects["pods", name]["status"]["phase"] == "Running"
