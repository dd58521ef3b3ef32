"""Gaps in the WAL of a service are found, and none is where a segment only moves."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.gaps import gaps
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal.segment import Segment
from ramet.machine.installation import find_installations
from ramet.model.snapshot import Snapshot, SnapshotKind
from tests.backends.local.segments import write_segment


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
    taken_at = datetime(2026, 1, 1, tzinfo=UTC)
    base = Snapshot("s1", "service", SnapshotKind.INITIAL, taken_at, "0/3000028", "0/3000100", 1, 700, 0)
    assert gaps(CopyDriver(), paths, find_installations(), [base], {}) == []
    assert (paths.archive / segment).exists()
