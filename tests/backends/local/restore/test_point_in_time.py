"""What a parent's control file says of a base backup, without a server: the programs of PostgreSQL are scripts here."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import SnapshotFacts
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.restore.point_in_time import RollForward
from ramet.backends.local.volumes.copy import CopyDriver
from ramet.backends.local.wal.segment import Segment
from ramet.errors import Failed
from ramet.machine.installation import Installation
from tests.backends.local.segments import IDENTIFIER, write_segment

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
_CONTROL_DATA = f"""
Database system identifier:           {IDENTIFIER}
Database cluster state:               in production
Latest checkpoint location:           0/2000060
Latest checkpoint's REDO location:    0/2000028
Latest checkpoint's REDO WAL file:    000000010000000000000002
Latest checkpoint's TimeLineID:       1
Latest checkpoint's NextXID:          0:740
Time of latest checkpoint:            Thu Jan 15 12:00:00 2026
Minimum recovery ending location:     0/2004000
Min recovery ending loc's timeline:   2
"""


def _installation(directory: Path, **printed: str) -> Installation:
    """Return an installation whose programs print these texts."""
    directory.mkdir()
    for name, text in printed.items():
        program = directory / name
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
        program.chmod(0o755)
    return Installation(directory, directory, directory, 18, 0, has_tls=False)


def test_the_last_state_of_a_service_that_crashed_before_the_first_checkpoint_after_its_promotion_is_not_known(
    tmp_path: Path,
) -> None:
    """Its last checkpoint is of the timeline of its source: only where recovery ended shows that it has left that."""
    parent = ServicePaths(tmp_path / "service", tmp_path / "sockets")
    facts = SnapshotFacts(NOON, "0/2000028", "0/2004000", 1, 740, 0)
    base = Base(facts, IDENTIFIER, clean=False, seconds={}, of_standby=True, has_label=False)
    wal = snapshots.data_of(parent, "snapshot01") / "pg_wal"
    for directory in (wal, parent.archive, parent.data / "pg_wal"):
        directory.mkdir(parents=True)
    snapshots.record(parent, "snapshot01", base)
    for place, segment in ((wal, Segment(1, 2)), (parent.data / "pg_wal", Segment(2, 2))):
        write_segment(place, segment)
    installation = _installation(tmp_path / "bin", pg_controldata=_CONTROL_DATA, pg_waldump="")
    target = datetime.max.replace(tzinfo=UTC)
    rolling = RollForward(CopyDriver(), installation, parent, "snapshot01", target, paused=False, down=True)
    with pytest.raises(Failed) as failed:
        rolling.into(tmp_path / "fork")
    assert failed.value.code == "WAL_MISSING"
