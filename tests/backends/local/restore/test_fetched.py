"""Removing what was downloaded for a fork, also where it has filled the storage."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import Layout
from ramet.backends.local.restore import fetched
from ramet.backends.local.restore.fetched import Place
from ramet.backends.local.volumes.pool import Pool
from tests.backends.local.pools import make_pool

pytestmark = pytest.mark.root

CHILD, PARENT = "child00001", "parent0001"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with make_pool(tmp_path_factory.mktemp("full"), "reflink", image_size_bytes=320 * 1024**2) as made:
        yield made


@pytest.fixture
def place(pool: Pool) -> Place:
    found = fetched.place_of(layout_of(pool), CHILD, PARENT)
    found.root.mkdir(parents=True)
    return found


def layout_of(pool: Pool) -> Layout:
    return Layout(pool.path / "services", pool.root / "sockets")


def fill(directory: Path) -> None:
    """Write until there is no space for another file, however small."""
    with suppress(OSError), (directory / "downloaded").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024**2))
    for number in itertools.count():
        try:
            (directory / f"{number}").write_bytes(b"x")
        except OSError:
            return


def test_a_download_that_has_filled_the_storage_is_ended_and_removed(pool: Pool, place: Place) -> None:
    is_full = threading.Event()

    def download() -> None:
        with files.locked(place.lock):
            fill(place.root)
            is_full.set()
            eventually(lambda: place.is_ending, seconds=30)

    with ThreadPoolExecutor() as executor:
        ended = executor.submit(download)
        assert is_full.wait(60)
        fetched.discard(pool.driver, layout_of(pool), CHILD)
        ended.result()
    assert fetched.children_with_downloads(layout_of(pool)) == []
