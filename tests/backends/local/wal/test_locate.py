"""Finding segments: which one was begun last."""

import errno
from pathlib import Path

import pytest

from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal import locate
from ramet.backends.local.wal.digests import UNREADABLE
from ramet.backends.local.wal.locate import WAL_DIRECTORY, BrokenChain, WalSource
from ramet.backends.local.wal.segment import Segment, fault_of
from tests.backends.local.segments import IDENTIFIER, write_segment


@pytest.mark.parametrize(("number", "last"), [(errno.EIO, 8), (None, 7)], ids=["unreadable", "recycled"])
def test_a_segment_that_the_disk_cannot_read_may_have_been_begun_and_a_recycled_one_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, last: int
) -> None:
    for begun in (6, 7):
        write_segment(tmp_path, Segment(1, begun))
    write_segment(tmp_path, Segment(1, 5)).rename(tmp_path / Segment(1, 8).name)

    def read(path: Path, segment: Segment, system_identifier: int, until_lsn: int | None = None) -> str | None:
        if number is not None and segment == Segment(1, 8):
            raise OSError(number, "Input/output error")
        return fault_of(path, segment, system_identifier, until_lsn)

    monkeypatch.setattr(locate, "fault_of", read)
    assert WalSource(CopyDriver(), [tmp_path], IDENTIFIER).last_written(Segment(1, 5)) == Segment(1, last)


def test_a_segment_that_the_disk_cannot_read_is_taken_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = [Segment(1, number) for number in (5, 6, 7)]
    archive, other, data = (tmp_path / name for name in ("archive", "other", "data"))
    for directory in (archive, other, data / WAL_DIRECTORY):
        directory.mkdir(parents=True)
    for segment in segments:
        write_segment(archive, segment)

    def read(path: Path, segment: Segment, system_identifier: int, until_lsn: int | None = None) -> str | None:
        if path == archive / segments[1].name:
            raise OSError(errno.EIO, "Input/output error")
        return fault_of(path, segment, system_identifier, until_lsn)

    monkeypatch.setattr(locate, "fault_of", read)
    source = WalSource(CopyDriver(), [archive, other], IDENTIFIER)
    assert source.fault_of(segments[1], None) == UNREADABLE
    with pytest.raises(BrokenChain, match=f"{segments[1].name} {UNREADABLE}"):
        source.place_all(segments, data, None)
    assert not (data / WAL_DIRECTORY / segments[1].name).exists()
    write_segment(other, segments[1])
    source.place_all(segments, data, None)
    assert all((data / WAL_DIRECTORY / segment.name).exists() for segment in segments)
