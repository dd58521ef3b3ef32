"""Snapshots that cannot be trusted to have what would be noted with them are taken again."""

from pathlib import Path

import pytest

from ramet.backends.interface.values import Source
from ramet.backends.kubernetes import snapshots, stopped, waking
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Metadata, Volume
from ramet.backends.kubernetes.site import Forks
from ramet.errors import Failed, Unavailable, Unseen
from tests.backends.kubernetes.past_world import CONTROL, FORK, NAME, STOPPED, World, past_world
from tests.backends.kubernetes.servers import SHARED


def _positions(monkeypatch: pytest.MonkeyPatch, *places: tuple[int, str, str]) -> None:
    """Let the server say these timelines, LSNs and times, one after the other."""
    found = iter({**STOPPED, "timeline": timeline, "end_lsn": lsn, "at": at} for timeline, lsn, at in places)
    monkeypatch.setattr(waking, "position_of", lambda place, server: next(found))


def test_a_snapshot_that_was_cut_while_nobody_looked_is_taken_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{NAME}-snapshot02"

    def lost(place: object, name: str, facts: object) -> None:
        raise Unseen("KUBERNETES_UNREACHABLE", "The API server cannot be asked now")

    _positions(
        monkeypatch,
        *((1, "0/3000028", f"2026-01-01T00:00:0{second}.000000Z") for second in (1, 2)),
        *((1, "0/4000028", f"2026-01-01T00:09:0{second}.000000Z") for second in (1, 2)),
    )
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "note", lost)
        with pytest.raises(Unseen):
            world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    first = world.found.objects["volumesnapshots", name]
    facts = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    assert facts is not None
    assert (facts.taken_at.isoformat(), facts.end_lsn) == ("2026-01-01T00:09:02+00:00", "0/4000028")
    removed = [path for verb, path in world.found.requests if verb == "DELETE" and path.endswith(name)]
    assert len(removed) == 1, "what was written in nine minutes is not in the first one"
    assert world.found.objects["volumesnapshots", name]["metadata"] != first["metadata"]
    assert world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False) == facts


@pytest.mark.parametrize("forks", [Forks.ADOPT, Forks.RECOVER])
def test_a_fork_of_now_says_where_its_parent_was_when_its_snapshot_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks
) -> None:
    def lost(place: Place, *given: object, **named: object) -> None:
        raise Unseen("KUBERNETES_UNREACHABLE", "The API server cannot be asked now")

    _positions(monkeypatch, *[(1, "0/3000028", "2026-01-01T00:03:00.000000Z")] * 2)
    with past_world(tmp_path, forks=forks) as world:
        with monkeypatch.context() as patched:
            patched.setattr(Place, "apply", lost)
            with pytest.raises(Unseen):
                world.backend.restore.capture(FORK, Source(SHARED))
        _positions(monkeypatch, *[(1, "0/4000028", "2026-01-01T00:04:00.000000Z")] * 2)
        captured = world.backend.restore.capture(FORK, Source(SHARED))
        assert captured is not None
        facts = captured.facts
        assert (facts["base_time"], facts["end_lsn"]) == ("2026-01-01T00:03:00.000000Z", "0/3000028")


@pytest.mark.parametrize("is_noticed_by", ["its timeline", "its volume"])
def test_a_snapshot_of_a_server_that_failed_over_is_taken_again_of_the_new_primary(
    world: World, monkeypatch: pytest.MonkeyPatch, is_noticed_by: str
) -> None:
    at = "2026-01-01T00:00:01.000000Z"
    timeline = 2 if is_noticed_by == "its timeline" else 1
    _positions(monkeypatch, (1, "0/3000028", at), *[(timeline, "0/3000200", at)] * 3)
    with monkeypatch.context() as patched:
        if is_noticed_by == "its volume":
            primaries = iter([Volume(Metadata(name=f"{NAME}-{number}")) for number in (1, 2)])
            patched.setattr(Place, "volume_of", lambda place, service_id: next(primaries))
        with pytest.raises(Unavailable, match="taken again"):
            world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    assert ("volumesnapshots", f"{NAME}-snapshot02") not in world.found.objects
    facts = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False)
    assert facts is not None
    assert (facts.timeline, facts.end_lsn) == (timeline, "0/3000200")


def test_a_snapshot_of_a_paused_server_ends_where_the_next_record_will_begin(world: World) -> None:
    facts = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    assert facts is not None
    assert (facts.start_lsn, facts.end_lsn, facts.next_xid) == ("0/3000028", "0/30000A0", 750)
    assert facts.wal_order > world.base.wal_order
    world.control = CONTROL.replace("shut down", "in production")
    with pytest.raises(Failed) as failed:
        world.backend.restore.take_snapshot(SHARED, "snapshot03", paused=True)
    assert (failed.value.code, "in production" in failed.value.details) == ("NOT_CLEANLY_STOPPED", True)
    assert not [name for kind, name in world.found.objects if kind == "pods" and "-volume-" in name]


@pytest.mark.parametrize("was_paused", [False, True])
def test_a_snapshot_of_a_stopped_server_is_not_taken_again_because_its_control_file_is_read_late(
    world: World, monkeypatch: pytest.MonkeyPatch, *, was_paused: bool
) -> None:
    def late(*given: object) -> None:
        raise Unavailable("POD_STARTING", "The pod that reads it starts")

    _positions(monkeypatch, *[(1, "0/2000200", "2026-01-01T00:00:01.000000Z")] * 2)
    with monkeypatch.context() as patched:
        patched.setattr(stopped, "read_control", late)
        patched.setattr(snapshots, "note", late)
        with pytest.raises(Unavailable):
            world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=was_paused)
    facts = world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=True)
    assert facts is not None
    assert facts.end_lsn == "0/30000A0"
    removed = [path for verb, path in world.found.requests if verb == "DELETE" and path.endswith("-snapshot02")]
    assert bool(removed) is not was_paused, "one of a running server does not have what that wrote until its stop"


@pytest.mark.parametrize("goes_down", ["before it is cut", "while it is cut"])
def test_no_snapshot_is_taken_of_a_server_that_should_serve_and_does_not(
    world: World, monkeypatch: pytest.MonkeyPatch, goes_down: str
) -> None:
    answers = goes_down == "while it is cut"
    serving = iter([{**STOPPED, "at": "2026-01-01T00:00:01.000000Z"}] * answers)

    def position_of(place: Place, server: object) -> object:
        found = next(serving, None)
        if found is None:
            raise Unavailable("SERVER_DOWN", "The server does not run")
        return found

    monkeypatch.setattr(waking, "position_of", position_of)
    for _ in range(2):
        assert world.backend.restore.take_snapshot(SHARED, "snapshot02", paused=False) is None
    assert ("volumesnapshots", f"{NAME}-snapshot02") not in world.found.objects
