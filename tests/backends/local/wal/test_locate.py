"""Finding segments: which one was begun last."""

from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.standby_copy import place_histories
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal.archive import add_histories
from ramet.backends.local.wal.locate import WAL_DIRECTORY, BrokenChain, WalSource, check_segment, place_history
from ramet.backends.local.wal.segment import UNREADABLE, Segment
from tests.backends.local.segments import DISK_FAULTS, IDENTIFIER, make_unreadable, write_segment


@pytest.mark.parametrize(("number", "last"), [*((number, 8) for number in DISK_FAULTS), (None, 7)])
def test_a_segment_that_the_disk_cannot_read_may_have_been_begun_and_a_recycled_one_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None, last: int
) -> None:
    for begun in (6, 7):
        write_segment(tmp_path, Segment(1, begun))
    victim = write_segment(tmp_path, Segment(1, 5)).rename(tmp_path / Segment(1, 8).name)
    if number is not None:
        make_unreadable(monkeypatch, victim, number)
    assert WalSource(CopyDriver(), [tmp_path], IDENTIFIER).last_written(Segment(1, 5)) == Segment(1, last)


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_segment_that_the_disk_cannot_read_is_taken_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    segments = [Segment(1, number) for number in (5, 6, 7)]
    archive, other, data = (tmp_path / name for name in ("archive", "other", "data"))
    for directory in (archive, other, data / WAL_DIRECTORY):
        directory.mkdir(parents=True)
    for segment in segments:
        write_segment(archive, segment)
    make_unreadable(monkeypatch, archive / segments[1].name, number)
    with pytest.raises(BrokenChain, match=f"{segments[1].name} {UNREADABLE}"):
        check_segment(archive / segments[1].name, segments[1], IDENTIFIER, None)
    source = WalSource(CopyDriver(), [archive, other], IDENTIFIER)
    assert source.fault_of(segments[1], None) == UNREADABLE
    with pytest.raises(BrokenChain, match=f"{segments[1].name} {UNREADABLE}"):
        source.place_all(segments, data, None)
    assert not (data / WAL_DIRECTORY / segments[1].name).exists()
    write_segment(other, segments[1])
    source.place_all(segments, data, None)
    assert all((data / WAL_DIRECTORY / segment.name).exists() for segment in segments)


def test_no_file_is_copied_through_a_link_in_place_of_a_timeline_history(tmp_path: Path) -> None:
    parent, data, secret = ServicePaths(tmp_path / "a", tmp_path), tmp_path / "copy", tmp_path / "secret"
    live = parent.data / WAL_DIRECTORY
    for directory in (parent.archive, live, data / WAL_DIRECTORY):
        directory.mkdir(parents=True)
    secret.write_text("1 is a secret")
    (live / "00000002.history").symlink_to(secret)
    (live / "00000003.history").write_text("1\t0/3000000\tno recovery target specified")
    for timeline in (2, 3):
        place_history(timeline, [live], data)
    assert [path.name for path in (data / WAL_DIRECTORY).iterdir()] == ["00000003.history"]
    place_histories(parent, data)
    assert [path.name for path in (data / WAL_DIRECTORY).iterdir()] == ["00000003.history"]
    add_histories(live, parent.archive)
    assert [path.name for path in parent.archive.iterdir()] == ["00000003.history"]
