"""The ends of segments without records take no blocks, and the segments read as before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes import syscalls
from ramet.backends.local.wal import blank_tail
from ramet.backends.local.wal.segment import PAGE_BYTES, SEGMENT_BYTES, Segment, fault_of
from tests.backends.local.pools import DRIVERS, make_pool
from tests.backends.local.segments import IDENTIFIER, bytes_on_disk, write_segment

FEW_BYTES = 2 * 1024**2
SEGMENT = Segment(1, 3)


@pytest.fixture(scope="module", params=DRIVERS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on the storage of each driver."""
    with make_pool(tmp_path_factory.mktemp("pool"), request.param) as pool:
        yield pool.path


@pytest.fixture
def written(place: Path) -> Path:
    """A segment with four pages, whose blank end was written as PostgreSQL does."""
    path = write_segment(place, SEGMENT)
    path.write_bytes(path.read_bytes())
    assert bytes_on_disk(path) == SEGMENT_BYTES
    return path


def test_the_blank_end_of_a_segment_takes_no_blocks_and_reads_as_before(written: Path) -> None:
    before = written.read_bytes()
    for _ in range(2):
        blank_tail.free(written)
        assert bytes_on_disk(written) < FEW_BYTES
        assert written.read_bytes() == before


def test_a_segment_that_is_not_blank_at_its_end_stays_as_it_is(written: Path) -> None:
    with written.open("r+b") as file:
        file.seek(SEGMENT_BYTES - 1)
        file.write(b"x")
    blank_tail.free(written)
    assert bytes_on_disk(written) == SEGMENT_BYTES


def test_a_file_of_another_size_stays_as_it_is(place: Path) -> None:
    path = place / SEGMENT.name
    path.write_bytes(bytes(SEGMENT_BYTES // 2))
    blank_tail.free(path)
    assert path.stat().st_size == SEGMENT_BYTES // 2
    assert bytes_on_disk(path) == SEGMENT_BYTES // 2


def test_a_segment_that_has_another_name_stays_as_it_is(written: Path) -> None:
    other = written.with_name("linked")
    other.hardlink_to(written)
    blank_tail.free(written)
    assert bytes_on_disk(written) == SEGMENT_BYTES
    other.unlink()


def test_a_segment_stays_as_it_is_where_the_file_system_frees_no_blocks(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def fallocate(self, *_arguments: object) -> int:
            return -1

    before = written.read_bytes()
    monkeypatch.setattr(syscalls, "_libc", Refusing())
    blank_tail.free(written)
    assert written.read_bytes() == before


def test_what_is_behind_the_checkpoint_of_a_shutdown_takes_no_blocks(place: Path) -> None:
    path = write_segment(place, SEGMENT)
    pages = path.read_bytes()[:PAGE_BYTES]
    path.write_bytes(pages * (SEGMENT_BYTES // PAGE_BYTES))
    blank_tail.free_behind(path, 40)
    assert bytes_on_disk(path) < FEW_BYTES
    assert path.read_bytes()[:PAGE_BYTES] == pages
    assert fault_of(path, SEGMENT, IDENTIFIER, SEGMENT.start + 40) is None
