"""How the volume of a stopped server is read for its archive."""

from datetime import datetime
from typing import Any

import pytest

from ramet.backends.kubernetes import names, waking
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Cluster
from tests.backends.kubernetes.past_world import NAME, World
from tests.backends.kubernetes.servers import SHARED


def _archived_until(world: World) -> datetime | None:
    return world.backend.archive.maintain(SHARED, paused=True, timeout_seconds=1).archived_until


def _start(world: World) -> None:
    """Start the server; what was noted at its last stop stays with the Cluster until the next one."""
    world.backend.servers.start(SHARED)
    noted = {names.LAST_SEGMENT_ANNOTATION: waking.UNREAD}
    world.backend.place.api.patch(Cluster, NAME, {"metadata": {"annotations": noted}})


def _readers(world: World) -> list[str]:
    return [
        name
        for (kind, name), one in world.found.objects.items()
        if kind == "pods" and names.VOLUME_LABEL in one["metadata"]["labels"]
    ]


def test_a_pod_in_which_nothing_can_be_run_yet_says_nothing_of_the_archive(world: World) -> None:
    world.back_up()
    world.archive(2)
    world.backend.servers.stop(SHARED)
    world.found.refused_runs = ["container not found (postgres)"]
    assert _archived_until(world) is None
    assert not world.found.refused_runs
    assert _archived_until(world) is not None


@pytest.mark.parametrize("name", [f"{NAME}-wal", f"{NAME}-volume", f"{NAME}-volume-archive"])
def test_no_stop_waits_for_a_pod_that_only_reads(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(waking, "_STOP_SECONDS", 10.0)
    world.found.put("pods", {"metadata": {"name": name, "labels": names.labels_of(SHARED.service_id)}})
    world.backend.servers.stop(SHARED)
    assert ("pods", name) in world.found.objects


def test_a_server_that_was_started_is_not_archived_as_a_stopped_one(world: World) -> None:
    world.back_up()
    world.archive(2)
    world.backend.servers.stop(SHARED)
    until = _archived_until(world)
    assert until is not None
    _start(world)
    assert _archived_until(world) == until
    assert not _readers(world)


@pytest.mark.parametrize("moment", ["before its pod is begun", "while its pod is begun"])
def test_no_pod_takes_the_volume_of_a_server_that_is_started_just_then(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    world.back_up()
    world.archive(2)
    world.backend.servers.stop(SHARED)
    begin_pod, apply = Place.begin_pod, Place.apply

    def begun_late(place: Place, *asked: Any) -> str | None:
        _start(world)
        return begin_pod(place, *asked)

    def applied_late(*asked: Any, **options: Any) -> None:
        _archived_until(world)
        assert _readers(world)
        apply(*asked, **options)

    world.found.refused_runs = ["container not found (postgres)"]
    if moment.startswith("before"):
        monkeypatch.setattr(Place, "begin_pod", begun_late)
        assert _archived_until(world) is None
    else:
        monkeypatch.setattr(Place, "apply", applied_late)
        _start(world)
    assert not _readers(world)
