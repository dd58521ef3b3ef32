"""What `ramet doctor` says of a cluster."""

from collections.abc import Iterator

import pytest

from ramet.backends.kubernetes import doctor
from ramet.backends.kubernetes.cluster import Place
from tests.backends.kubernetes.api_server import FakeCluster, in_cluster

_DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
_DEFAULT_SNAPSHOTS = {"snapshot.storage.kubernetes.io/is-default-class": "true"}


@pytest.fixture
def cluster() -> Iterator[tuple[FakeCluster, Place]]:
    with in_cluster() as found:
        yield found


def test_an_empty_cluster_lacks_storage(cluster: tuple[FakeCluster, Place]) -> None:
    rows = dict(doctor.examine(cluster[1]))
    assert rows["kubernetes"] == "v1.34.4, namespace services."
    assert rows["rights"] == "All that Ramet needs in its namespace."
    assert rows["storage"].startswith("There is no default storage class. Set RAMET_KUBERNETES_STORAGE_CLASS")
    assert rows["snapshots"].startswith("No snapshot class fits the volumes, so nothing can be forked.")


def test_a_snapshot_class_must_be_of_the_driver_of_the_volumes(cluster: tuple[FakeCluster, Place]) -> None:
    found, place = cluster
    found.put("storageclasses", {"metadata": {"name": "fast", "annotations": _DEFAULT}, "provisioner": "fast.csi"})
    other = {"metadata": {"name": "slow", "annotations": _DEFAULT_SNAPSHOTS}, "driver": "slow.csi"}
    found.put("volumesnapshotclasses", other)
    assert "slow of slow.csi" in dict(doctor.examine(place))["snapshots"]
    found.put("volumesnapshotclasses", {**other, "driver": "fast.csi"})
    rows = dict(doctor.examine(place))
    assert rows["storage"] == "Volumes of class fast, by fast.csi, of 10 GiB."
    assert rows["snapshots"] == "Forks begin with snapshots of class slow, by fast.csi."
