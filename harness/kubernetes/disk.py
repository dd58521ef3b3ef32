"""The node's disk: a btrfs in a file, with a subvolume of unpacked images.

The subvolume of a running cluster begins as its snapshot. So a cluster starts without unpacking anything.
"""

import shutil
import sys
from pathlib import Path

from harness.kubernetes import containerd
from harness.kubernetes.images import IMAGES
from harness.kubernetes.layout import cluster_directory, disk, disk_image
from harness.kubernetes.versions import REPOSITORY, cache_directory, run

_GIBIBYTES = 48
IMAGES_SUBVOLUME = "images"
CLUSTER_SUBVOLUME = "cluster"


def build() -> None:
    """Make the disk with all images, whole or not at all. Disks with other images are deleted."""
    for other in cache_directory().glob("*.btrfs"):
        other.unlink()
    half = cache_directory() / "half.btrfs"
    with half.open("wb") as file:
        file.truncate(_GIBIBYTES << 30)
    run("mkfs.btrfs", "--quiet", str(half))
    in_private_mounts("fill", str(half))
    half.rename(disk_image())


def clear() -> None:
    """Delete what a cluster wrote, and give its blocks back to the machine."""
    if disk_image().exists():
        in_private_mounts("clear", str(disk_image()))


def in_private_mounts(*arguments: str) -> None:
    """Run a function of this module where its mounts are nobody else's and end with it."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    run(*words, sys.executable, "-m", "harness.kubernetes.disk", *arguments, cwd=REPOSITORY)


def mount(image: Path) -> None:
    """Mount a disk at its place."""
    disk().mkdir(parents=True, exist_ok=True)
    run("mount", "-o", "loop,noatime,discard=async", str(image), str(disk()))


def start_over() -> Path:
    """Return a new subvolume for a cluster, in which all images are there."""
    _delete_cluster()
    run("btrfs", "subvolume", "snapshot", str(disk() / IMAGES_SUBVOLUME), str(disk() / CLUSTER_SUBVOLUME))
    return disk() / CLUSTER_SUBVOLUME


def _delete_cluster() -> None:
    cluster = disk() / CLUSTER_SUBVOLUME
    if not cluster.exists():
        return
    # A subvolume that contains others cannot be deleted: the volumes and snapshots go first.
    for inner in (*cluster.glob("pool/volumes/*"), *cluster.glob("pool/snapshots/*"), *cluster.glob("pool/half-*")):
        run("btrfs", "subvolume", "delete", str(inner))
    run("btrfs", "subvolume", "delete", str(cluster))


def _fill(image: Path) -> None:
    mount(image)
    root = disk() / IMAGES_SUBVOLUME
    run("btrfs", "subvolume", "create", str(root))
    with containerd.running(root / "containerd", cluster_directory() / "filling"):
        for one in IMAGES:
            archive = disk() / "archive.tar"
            one.write(archive)
            containerd.ctr("images", "import", str(archive), state=cluster_directory() / "filling")
            archive.unlink()
    shutil.rmtree(cluster_directory() / "filling")


def _clear(image: Path) -> None:
    mount(image)
    _delete_cluster()
    run("btrfs", "subvolume", "sync", str(disk()))
    run("fstrim", str(disk()))


if __name__ == "__main__":
    {"fill": _fill, "clear": _clear}[sys.argv[1]](Path(sys.argv[2]))
