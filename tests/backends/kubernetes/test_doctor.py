"""What `ramet doctor` says of a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.archive.object_store import open_bucket
from ramet.backends.kubernetes import doctor
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.site import Forks
from ramet.backends.kubernetes.store_access import StoreAccess
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster

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
    found.put(
        "storageclasses",
        {
            "metadata": {"name": "fast", "annotations": _DEFAULT},
            "provisioner": "fast.csi",
            "allowVolumeExpansion": True,
        },
    )
    other = {"metadata": {"name": "slow", "annotations": _DEFAULT_SNAPSHOTS}, "driver": "slow.csi"}
    found.put("volumesnapshotclasses", other)
    assert "slow of slow.csi" in dict(doctor.examine(place))["snapshots"]
    found.put("volumesnapshotclasses", {**other, "driver": "fast.csi"})
    rows = dict(doctor.examine(place))
    assert rows["storage"] == "Volumes of class fast, by fast.csi, of 10 GiB. They can grow."
    assert rows["snapshots"] == "Forks begin with snapshots of class slow, by fast.csi."


def test_where_forks_are_copies_it_says_what_they_cost(tmp_path: Path) -> None:
    with in_cluster(forks=Forks.COPY) as (found, place):
        found.unknown = {"volumesnapshots", "volumesnapshotclasses"}
        rows = dict(doctor.examine(place))
        assert rows["snapshots"].endswith("takes the time and the room of all data.")
        assert rows["archive"].endswith("services cannot be restored to any past time.")
    with in_cluster() as (found, place):
        found.unknown = {"volumesnapshotclasses"}
        assert "set RAMET_KUBERNETES_FORKS=copy" in dict(doctor.examine(place))["snapshots"]


def test_what_archive_and_operator_lack_is_said(tmp_path: Path) -> None:
    with in_cluster(archive=StoreAccess("s3://bucket")) as (found, place):
        place.__dict__["bucket"] = open_bucket(f"file://{tmp_path}")
        found.put(
            "persistentvolumeclaims", {"metadata": {"name": "x", "annotations": {"cnpg.io/operatorVersion": "1.31.0"}}}
        )
        rows = dict(doctor.examine(place))
        assert rows["archive"].startswith("file://")
        assert "release 1.31.0" in rows["operator"]
        assert "Forks rely on the code of release 1.30" in rows["operator"]
        place.__dict__["bucket"] = open_bucket(f"file://{tmp_path}/missing")
        assert "does not exist" in dict(doctor.examine(place))["archive"]
    with in_cluster() as (_, place):
        assert dict(doctor.examine(place))["archive"].startswith("None: RAMET_ARCHIVE_URL is not set")
