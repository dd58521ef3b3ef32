"""What is flushed is on the disk below, whatever the kernel still keeps in memory."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import NotFlushed

MIB = 1024**2


@pytest.mark.root
@pytest.mark.parametrize("is_written_back", [False, True])
def test_a_flushed_tree_survives_a_power_cut(
    pool: Pool, place: Path, source: Path, tmp_path: Path, *, is_written_back: bool
) -> None:
    tree = place / "tree"
    tree.mkdir()
    if is_written_back:
        flush_tree(source)
    pool.driver.clone_tree(source, tree / "data")
    (tree / "note").write_text("written at last")
    if not is_written_back:
        (tree / "data/base/1/1259").write_bytes(os.urandom(50_000))
    (tree / "data/PG_VERSION").rename(tree / "data/renamed")
    flush_tree(tree, tree / "data" if is_written_back else None)
    if pool.image is None:
        return  # there is no disk to look at
    cut, below = tmp_path / "cut.img", tmp_path / "cut"
    subprocess.run(["cp", "--sparse=always", str(pool.image), str(cut)], check=True)  # without dirty pages
    below.mkdir()
    nouuid = ",nouuid" if pool.driver.name == "reflink" else ""
    subprocess.run(["mount", "-o", f"loop{nouuid}", str(cut), str(below)], check=True)
    try:
        assert _contents(below / tree.relative_to(pool.path)) == _contents(tree)
    finally:
        subprocess.run(["umount", str(below)], check=True)


@pytest.mark.root
def test_the_kernel_says_once_that_the_disk_below_a_sparse_image_is_full(tmp_path: Path) -> None:
    disk, inside = tmp_path / "disk", tmp_path / "inside"
    with mounted(disk, "tmpfs", "-t", "tmpfs", "-o", "size=120m"):
        image = disk / "pool.xfs"
        image.touch()
        os.truncate(image, 400 * MIB)
        subprocess.run(["mkfs.xfs", "-q", str(image)], check=True)
        with mounted(inside, str(image), "-o", "loop"):
            tree = inside / "copy"
            tree.mkdir()
            (tree / "1259").write_bytes(os.urandom(150 * MIB))
            with pytest.raises(NotFlushed) as caught:
                flush_tree(tree)
            assert caught.value.errno in (errno.ENOSPC, errno.EIO)
            flush_tree(tree)  # it lies: a copy must not be flushed twice


@contextlib.contextmanager
def mounted(place: Path, source: str, *options: str) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", *options, source, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _contents(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        flush_tree(tmp_path / "nowhere")
