"""Where the operator's recovery job has to stop, and that this is compared with where it did."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from ramet.backends.interface.values import Capture, Source
from ramet.backends.kubernetes import past
from ramet.backends.kubernetes.cluster import Place
from ramet.errors import Failed
from ramet.model.timestamps import rfc3339
from tests.backends.kubernetes.past_world import CONTROL, FORK, FORKED, SECOND, World
from tests.backends.kubernetes.servers import SHARED


def _captured(world: World) -> Capture:
    source = replace(world.source(2 * SECOND), paused=False, snapshot_id=None, base_backup_id=world.back_up().backup_id)
    captured = world.backend.restore.capture(FORK, source)
    assert captured is not None
    return captured


def _has_recovered(monkeypatch: pytest.MonkeyPatch, left_at: str, committed: Any) -> None:
    """Let the recovered server say where it left its parent's timeline, and when its last transaction committed."""
    monkeypatch.setattr(Place, "connect", lambda place, server: nullcontext())
    monkeypatch.setattr(past, "row", lambda *asked: (2, f"1\t{left_at}\tno recovery target specified\n", committed))


def test_what_is_archived_until_the_job_runs_is_not_recovered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND))
    captured = _captured(world)
    assert world.recovery()["recoveryTarget"] == {
        "backupID": "20260101T000000", "targetLSN": "0/02000100", "exclusive": False,
    }  # fmt: skip
    _has_recovered(monkeypatch, "0/3000000", world.base.taken_at + SECOND)
    with pytest.raises(Failed) as failed:
        world.backend.restore.recover(FORK, captured, 0)
    assert failed.value.code == "WRONG_STOP_POINT"
    _has_recovered(monkeypatch, captured.facts["left_at"], world.base.taken_at + SECOND)
    facts = world.backend.restore.recover(FORK, captured, 0).facts
    assert facts is not None
    assert facts["last_commit_time"] == rfc3339(world.base.taken_at + SECOND)


def test_without_any_transaction_in_the_archive_recovery_stops_where_the_base_backup_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.archive(2)
    captured = _captured(world)
    assert world.recovery()["recoveryTarget"] == {
        "backupID": "20260101T000000", "targetLSN": "0/2000100", "exclusive": True,
    }  # fmt: skip
    _has_recovered(monkeypatch, "0/3000000", None)
    with pytest.raises(Failed, match="expected 0/2000100"):
        world.backend.restore.recover(FORK, captured, 0)
    _has_recovered(monkeypatch, "0/2000100", None)
    assert world.backend.restore.recover(FORK, captured, 0).facts is not None


def test_the_last_state_that_the_archive_has_is_recovered_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.archive(2)
    source = replace(world.source(SECOND), snapshot_id=None, target=None, base_backup_id=world.back_up().backup_id)
    captured = world.backend.restore.capture(FORK, source)
    assert captured is not None
    assert world.recovery()["recoveryTarget"] == {"backupID": "20260101T000000"}
    _has_recovered(monkeypatch, "0/3000000", None)
    assert world.backend.restore.recover(FORK, captured, 0).facts is not None


@pytest.mark.parametrize(("before", "after"), [("0/3000028", "0/4000028"), ("shut down", "in production")])
def test_the_last_state_of_a_stopped_service_is_no_past_one_while_its_last_wal_is_not_archived(
    world: World, before: str, after: str
) -> None:
    world.archive(2)
    world.commits((700, "0/02000100", SECOND))
    world.control = CONTROL.replace(before, after)
    with pytest.raises(Failed) as behind:
        world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert behind.value.code == "ARCHIVE_BEHIND"
    assert "or send fork_strategy NOW" in behind.value.details
    assert ("clusters", FORKED) not in world.found.objects
    assert not [name for kind, name in world.found.objects if kind == "pods" and "-volume-" in name]
    world.control = CONTROL
    world.backend.restore.capture(FORK, world.source(2 * SECOND))
    assert "recovery" not in world.found.objects["clusters", FORKED]["spec"]["bootstrap"]


def test_a_time_within_a_pause_is_recovered_from_a_snapshot_of_the_stopped_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    assert base is not None
    source = Source(SHARED, snapshot_id="snapshot02", target=base.taken_at + SECOND)
    for number in (2, 3):
        world.archive(number)
    world.base = base
    world.commits((760, "0/030000A0", 2 * SECOND))  # the first one after the service was started again
    captured = world.backend.restore.capture(FORK, replace(source, paused=True))
    assert captured is not None
    assert world.recovery()["recoveryTarget"] == {"targetLSN": "0/30000A0", "exclusive": True}
    _has_recovered(monkeypatch, "0/30000A0", None)  # no recovery ends before the checkpoint that it began with
    assert world.backend.restore.recover(FORK, captured, 0).facts is not None


def test_of_a_service_that_is_paused_since_a_snapshot_no_wal_is_missing(world: World) -> None:
    world.archive(2)
    base = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    assert base is not None
    source = Source(SHARED, paused=True, snapshot_id="snapshot02", target=base.taken_at + SECOND)
    assert world.backend.copies.make(FORK, replace(source, paused=False)) is None  # it has just been started
    world.backend.restore.capture(FORK, source)
    assert ("volumesnapshots", f"{FORKED}-seed") in world.found.objects
