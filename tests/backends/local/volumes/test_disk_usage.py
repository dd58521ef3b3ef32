"""Space is counted extent by extent, whatever the tree contains."""

import os
from pathlib import Path

import pytest

from ramet.backends.local.volumes.disk_usage import free_bytes
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.volumes.syscalls import sync_tree


def _fragmented(path: Path, pieces: int) -> None:
    with path.open("wb") as file:
        file.truncate(pieces * 65536)  # else XFS reserves ahead of each piece
        for piece in range(pieces):
            file.seek(piece * 65536)
            file.write(os.urandom(4096))


def test_a_file_of_many_extents_is_counted_to_the_end(driver: Driver, place: Path) -> None:
    driver.create_tree(place / "tree")
    _fragmented(place / "tree/file", 1000)
    sync_tree(place)
    assert driver.exclusive_bytes(place / "tree") == pytest.approx(1000 * 4096, rel=0.05)


def test_links_pipes_and_empty_files_count_nothing(driver: Driver, place: Path) -> None:
    driver.create_tree(place / "tree")
    (place / "tree/link").symlink_to("/dev/zero")
    (place / "tree/empty").touch()
    os.mkfifo(place / "tree/pipe")
    assert driver.exclusive_bytes(place / "tree") == 0


def test_free_space_shrinks_by_what_is_written(pool: Pool, place: Path) -> None:
    before = free_bytes(place)
    with (place / "file").open("wb") as file:
        file.write(os.urandom(32 * 1024**2))
    sync_tree(place)
    if pool.image is not None:  # a file system of our own; XFS has reserved some of it ahead
        assert before - free_bytes(place) == pytest.approx(32 * 1024**2, rel=0.25)
    assert free_bytes(place) > 0
