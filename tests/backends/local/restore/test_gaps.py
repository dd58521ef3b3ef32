"""Gaps in the WAL of a service are found, and none is where a segment only moves."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import SnapshotFacts
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.gaps import gaps
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal.segment import Segment
from ramet.machine.installation import find_installations
from ramet.model.snapshot import Snapshot, SnapshotKind
from tests.backends.local.segments import DISK_FAULTS, IDENTIFIER, make_unreadable, write_segment

_TAKEN_AT = datetime(2026, 1, 1, tzinfo=UTC)
_FIRST = Snapshot("s1", "service", SnapshotKind.INITIAL, _TAKEN_AT, "0/3000028", "0/3000100", 1, 700, 0)


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    """A service that has archived two segments, and writes the fourth."""
    made = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    live = made.data / "pg_wal"
    for directory in (made.archive, live):
        directory.mkdir(parents=True)
    for directory, number in ((made.archive, 3), (made.archive, 4), (live, 5), (live, 6)):
        write_segment(directory, Segment(1, number))
    return made


def test_a_segment_that_is_archived_meanwhile_is_not_missing(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment, listed = Segment(1, 5).name, Path.iterdir

    def list_and_archive(directory: Path) -> Iterator[Path]:
        found = list(listed(directory))
        if (paths.data / "pg_wal" / segment).exists():
            (paths.data / "pg_wal" / segment).rename(paths.archive / segment)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", list_and_archive)
    assert gaps(CopyDriver(), paths, find_installations(), [_FIRST], {}) == []
    assert (paths.archive / segment).exists()


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_segment_that_the_disk_cannot_read_is_a_gap(
    paths: ServicePaths, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    installations, data = find_installations(), snapshots.data_of(paths, _FIRST.id)
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text(f"{installations.default.major}\n")
    facts = SnapshotFacts(_TAKEN_AT, _FIRST.start_lsn, _FIRST.end_lsn, 1, 700, 0)
    snapshots.record(paths, _FIRST.id, Base(facts, IDENTIFIER, clean=False, seconds={}))
    make_unreadable(monkeypatch, paths.archive / Segment(1, 4).name, number)
    (gap,) = gaps(CopyDriver(), paths, installations, [_FIRST], {})
    assert (gap.begins_at, gap.ends_at) == (_TAKEN_AT, None)
    assert Segment(1, 4).name in gap.reason
