"""The archive of a service: what it keeps, and what it removes."""

import os
import time
from pathlib import Path

import pytest

from ramet.backends.local.wal.archive import add_histories, trim, trim_histories
from ramet.backends.local.wal.segment import Segment
from tests.backends.local.segments import DISK_FAULTS, refuse_removal


def archive_of(directory: Path, *segments: Segment) -> Path:
    for segment in segments:
        (directory / segment.name).touch()
    return directory


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_missing_archive_is_empty(tmp_path: Path) -> None:
    assert trim(tmp_path / "none", 1, "0/5000000") == 0


def test_only_segments_wholly_before_the_lsn_are_removed(tmp_path: Path) -> None:
    archive_of(tmp_path, *(Segment(1, number) for number in range(2, 7)))
    assert trim(tmp_path, 1, "0/5000028") == 3
    assert names(tmp_path) == {Segment(1, 5).name, Segment(1, 6).name}
    assert trim(tmp_path, 1, "0/5000028") == 0


def test_later_timelines_and_histories_stay(tmp_path: Path) -> None:
    archive_of(tmp_path, Segment(1, 2), Segment(2, 2))
    (tmp_path / "00000002.history").touch()
    assert trim(tmp_path, 1, "0/9000000") == 1
    assert names(tmp_path) == {Segment(2, 2).name, "00000002.history"}


def test_of_earlier_timelines_all_is_removed_wherever_they_end(tmp_path: Path) -> None:
    """A service that is set back again and again writes the same LSNs on each of its timelines."""
    archive_of(tmp_path, *(Segment(timeline, number) for timeline in (1, 2, 3) for number in range(2, 7)))
    assert trim(tmp_path, 3, "0/3000028") == 11
    assert names(tmp_path) == {Segment(3, number).name for number in range(3, 7)}


def test_histories_and_ends_of_timelines_that_nothing_needs_are_removed(tmp_path: Path) -> None:
    """A snapshot by hand is on timeline 3, and the window begins on 5."""
    kinds = ("history", "end")
    for number, kind in ((number, kind) for number in range(2, 8) for kind in kinds):
        (tmp_path / f"{number:08X}.{kind}").touch()
    archive_of(tmp_path, Segment(2, 2))
    for _ in range(2):
        trim_histories(tmp_path, 5, {3, 5, 6})
    kept = {f"{number:08X}.{kind}" for number in (3, 5, 6, 7) for kind in kinds}
    assert names(tmp_path) == kept | {Segment(2, 2).name}
    trim_histories(tmp_path / "none", 5, {5})


def test_backup_notes_go_with_their_segment(tmp_path: Path) -> None:
    archive_of(tmp_path, Segment(1, 2))
    for segment in (Segment(1, 2), Segment(1, 4)):
        (tmp_path / f"{segment.name}.00000028.backup").touch()
    assert trim(tmp_path, 1, "0/4000000") == 1
    assert names(tmp_path) == {f"{Segment(1, 4).name}.00000028.backup"}


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_what_the_disk_refuses_to_remove_keeps_nothing_else_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    archive_of(tmp_path, *(Segment(1, number) for number in range(2, 7)))
    with monkeypatch.context() as patched:
        refuse_removal(patched, Segment(1, 3).name, number)
        assert trim(tmp_path, 1, "0/5000028") == 2
    assert names(tmp_path) == {Segment(1, number).name for number in (3, 5, 6)}
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert os.strerror(number) in caplog.text
    assert trim(tmp_path, 1, "0/5000028") == 1


def test_old_temporary_files_of_a_killed_archiver_are_removed(tmp_path: Path) -> None:
    fresh, old = tmp_path / "archtemp.1", tmp_path / "archtemp.2"
    fresh.touch()
    old.touch()
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert trim(tmp_path, 1, "0/1000000") == 0
    assert names(tmp_path) == {"archtemp.1"}


def test_a_history_is_archived_unless_it_only_keeps_a_timeline_from_being_used(tmp_path: Path) -> None:
    wal, kept = tmp_path / "pg_wal", tmp_path / "archive"
    for directory in (wal, kept):
        directory.mkdir()
    (wal / "00000002.history").write_text("1\t0/5000148\tno recovery target specified\n")
    (wal / "00000003.history").write_text("# Another server has used this timeline.\n")
    (wal / "00000004.history").write_text("1\t0/5000148\tanother one\n")
    (kept / "00000004.history").write_text("the first one\n")
    for _ in range(2):
        add_histories(wal, kept)
    assert {path.name: path.read_text()[:3] for path in kept.iterdir()} == {
        "00000002.history": "1\t0",
        "00000004.history": "the",
    }
