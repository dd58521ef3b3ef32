"""What keeps a server from starting is said, over an API server in memory with events."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Readiness
from ramet.backends.kubernetes import jobs, warnings
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.resources import ContainerStatus, Metadata, Pod, PodStatus
from ramet.errors import Failed
from ramet.model.progress import without_warning
from ramet.model.timestamps import rfc3339
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED

NAME = "ramet-abcdefghij"
QUOTA = 'Error creating: pods "ramet-abcdefghij-1-initdb-x2x4z" is forbidden: exceeded quota: small'


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeCluster, KubernetesBackend]]:
    """A service whose Cluster was made, and whose pod was not."""
    monkeypatch.setattr(warnings, "_LOOK_SECONDS", 0.0)
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        found.remove("pods", f"{NAME}-1")
        eventually(lambda: place.primary_pod(SHARED.service_id) is None)
        yield found, backend


def warn(found: FakeCluster, about: str, reason: str, message: str, age: timedelta = timedelta(0)) -> None:
    """Let the cluster have an event."""
    event = {
        "metadata": {"name": f"{about}.{reason}"},
        "involvedObject": {"kind": "Thing", "name": about},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": rfc3339(datetime.now(UTC) - age),
    }
    found.put("events", event)


def readiness(backend: KubernetesBackend) -> Readiness:
    return backend.servers.await_ready(SHARED, 0)


def test_a_start_that_a_quota_forbids_says_so(waiting: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = waiting
    warn(found, f"{NAME}-1-initdb", "FailedCreate", QUOTA)
    assert readiness(backend).progress.endswith(f"Warning: FailedCreate: {QUOTA}")
    assert QUOTA in jobs.progress(backend.place, SHARED.service_id, "Recovery")


def test_the_newest_warning_about_the_service_is_said_and_no_old_one(
    waiting: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = waiting
    warn(found, f"{NAME}-1", "Old", "of an earlier start", timedelta(hours=1))
    warn(found, "ramet-abcdefghijk", "Other", "of another service")
    assert "Warning" not in readiness(backend).progress
    warn(found, NAME, "First", "a minute ago", timedelta(minutes=1))
    warn(found, f"{NAME}-1", "Failed", "Failed to pull image\n" + "x" * 1000)
    said = readiness(backend).progress
    assert "Failed: Failed to pull image x" in said
    assert len(said) < 500


def test_a_storage_class_that_does_not_exist_ends_the_start(waiting: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = waiting
    warn(found, f"{NAME}-1", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
    with pytest.raises(Failed, match="storage class fast, which does not exist") as failed:
        readiness(backend)
    assert "RAMET_KUBERNETES_STORAGE_CLASS" in failed.value.details


def test_a_start_goes_on_where_events_may_not_be_read(waiting: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = waiting
    found.unknown = {"events"}
    warn(found, f"{NAME}-1-initdb", "FailedCreate", QUOTA)
    assert "Warning" not in readiness(backend).progress


def test_why_an_image_cannot_be_pulled_is_no_progress_of_its_pod() -> None:
    def said(reason: str, message: str) -> str:
        container = ContainerStatus("postgres", state={"waiting": {"reason": reason, "message": message}})
        return Pod(Metadata("pod"), status=PodStatus("Pending", container_statuses=[container])).progress

    first = said("ErrImagePull", "no answer to port 50000")
    assert first == "pod is Pending: postgres waits for its image Warning: ErrImagePull: no answer to port 50000"
    assert without_warning(first) == without_warning(said("ImagePullBackOff", "no answer to port 50001"))
