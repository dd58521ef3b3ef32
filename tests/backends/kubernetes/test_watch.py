"""What the API server last said, kept up to date by a watch."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.kubernetes import api, watch
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.sql import read_only_roles
from ramet.errors import Unseen
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster, running_pod
from tests.backends.kubernetes.servers import SHARED, report


@pytest.fixture
def cluster() -> Iterator[tuple[FakeCluster, Place]]:
    with in_cluster() as found:
        yield found


def pod(name: str, service_id: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"ramet/service": service_id}}, "status": running_pod()}


def test_changes_are_seen_without_asking_again(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    found.put("pods", pod("one", "abcdefghij"))
    assert place.pods.get("one") is not None
    asked = len(found.requests)
    found.put("pods", pod("two", "abcdefghij"))
    eventually(lambda: [one.metadata.name for one in place.pods.of_service("abcdefghij")] == ["one", "two"])
    found.remove("pods", "one")
    eventually(lambda: place.pods.get("one") is None)
    assert len(found.requests) <= asked + 1  # the watch itself may have begun later


def test_objects_of_others_are_not_seen(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    found.put("pods", {"metadata": {"name": "other", "labels": {"app": "other"}}, "status": running_pod()})
    found.put("pods", pod("one", "abcdefghij"))
    assert place.pods.get("one") is not None
    assert place.pods.get("other") is None


@pytest.mark.parametrize("is_seen", [True, False], ids=["in the watch", "in the next list"])
def test_a_process_forgets_a_service_whose_cluster_another_one_has_deleted(
    cluster: tuple[FakeCluster, Place], monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    found, place = cluster
    found.answer = lambda pod, command, stdin: (report(marked=True), "", 0)
    monkeypatch.setattr(read_only_roles, "_settle", lambda *_: {})
    backend, kept = KubernetesBackend(place), replace(SHARED, service_id="keptkept12")
    for server in (SHARED, kept):
        backend.servers.initialize(server)
    eventually(lambda: place.clusters.get(f"ramet-{kept.service_id}") is not None)
    for server in (SHARED, kept):
        backend.servers.maintain(server, 0.1, datetime.now(UTC))
    sockets = {server.service_id: place.paths(server).sockets for server in (SHARED, kept)}
    remembered = (
        *(place.tunnels._listeners, place.reports._known),
        *(backend.servers._maintained, backend.servers.read_only_roles._observed, backend.servers.renewal._applied),
    )
    assert [set(one) for one in remembered] == [{SHARED.service_id, kept.service_id}] * len(remembered)
    if is_seen:
        found.remove("clusters", f"ramet-{SHARED.service_id}")
    else:
        del found.objects["clusters", f"ramet-{SHARED.service_id}"]
        found.forget_versions("clusters")
    eventually(lambda: [set(one) for one in remembered] == [{kept.service_id}] * len(remembered))
    assert [path.exists() for path in sockets.values()] == [False, True]


def test_an_answer_that_ends_a_watch_begins_another(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    found.put("pods", pod("one", "abcdefghij"))
    assert place.pods.get("one") is not None
    found.put("pods", {"metadata": {"name": "one", "labels": {"ramet/service": "abcdefghij"}}, "status": "no status"})
    found.put("pods", pod("one", "abcdefghij"))
    found.put("pods", pod("two", "abcdefghij"))
    eventually(lambda: place.pods.get("two") is not None)


def test_a_watch_whose_connection_was_lost_without_a_word_is_given_up(
    cluster: tuple[FakeCluster, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_SILENT_SECONDS", 0.3)
    found, place = cluster
    found.silent = True
    found.put("pods", pod("one", "abcdefghij"))
    assert place.pods.get("one") is not None
    found.put("pods", pod("two", "abcdefghij"))
    eventually(lambda: place.pods.get("two") is not None)


def test_a_watch_for_which_no_thread_could_be_started_begins_with_the_next_question(
    cluster: tuple[FakeCluster, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, place = cluster
    found.put("pods", pod("one", "abcdefghij"))

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            place.pods.get("one")
    assert place.pods.get("one") is not None


def test_a_version_that_the_api_server_has_forgotten_is_no_fault(
    cluster: tuple[FakeCluster, Place], caplog: pytest.LogCaptureFixture
) -> None:
    found, place = cluster
    assert place.pods.get("one") is None
    found.forget_versions("pods")
    found.put("pods", pod("one", "abcdefghij"))
    eventually(lambda: place.pods.get("one") is not None)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_what_keeps_the_api_server_from_being_asked_is_said(
    cluster: tuple[FakeCluster, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_FIRST_LIST_SECONDS", 0.3)
    found, place = cluster
    found.unknown.add("pods")
    with pytest.raises(Unseen, match="cannot be asked now") as unseen:
        place.pods.get("one")
    assert "could not find the requested resource" in unseen.value.details
