"""Finding segments: which one was begun last."""

import errno
from pathlib import Path

import pytest

from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal import locate
from ramet.backends.local.wal.locate import WalSource
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
