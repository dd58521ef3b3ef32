"""Restore drills of real servers from an off-host archive in a mounted directory."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from prove.ground import Ground, Running, open_ground
from ramet.control.archive import set_archive
from ramet.control.duties.archive import OffHostArchive
from ramet.control.duties.drills import submit_due_drill
from ramet.model.service import Service
from ramet.store import operations
from tests.proofs.ledgers import append, make_ledger


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    directory = tmp_path / "nas"
    directory.mkdir()
    return directory


@pytest.fixture
def ground(mounted: Path) -> Iterator[Ground]:
    with open_ground(None, snapshot_seconds=3600.0, archive_url=mounted.as_uri()) as made:
        yield made


@pytest.fixture
def parent(ground: Ground) -> Running:
    running = ground.create("shop")
    make_ledger(running)
    return running


def drilled(ground: Ground, parent: Running) -> Service:
    """Let a drill of the service run to its end."""
    before = ground.look(parent).drilled_at

    def is_idle() -> bool:
        with ground.store.read() as tx:
            return not operations.is_busy(tx)

    eventually(is_idle)
    submit_due_drill(ground.plane, timedelta(0))
    eventually(lambda: ground.look(parent).drilled_at != before)
    return ground.look(parent)


def test_a_drill_needs_no_local_file_and_finds_what_was_altered(ground: Ground, parent: Running, mounted: Path) -> None:
    set_archive(ground.plane, ground.project_id, parent.service.id, True)
    (committed,) = append(parent, 1)
    duty = OffHostArchive(ground.plane)

    def is_archived() -> bool:
        duty.maintain()
        until = ground.look(parent).archived_until
        return until is not None and until > committed

    eventually(is_archived)
    local = drilled(ground, parent)
    assert (local.drill_failure, local.archive_verified_at) == (None, None)

    paths = ground.backend.instances.paths(parent.service.id)
    paths.snapshots.rename(paths.root / "hidden")
    for segment in paths.archive.iterdir():
        segment.unlink()
    proven = drilled(ground, parent)
    assert proven.archive_drill_failure is None
    assert proven.archive_verified_at == proven.archived_until
    assert proven.last_verified_at == local.last_verified_at
    (paths.root / "hidden").rename(paths.snapshots)

    drilled(ground, parent)
    (part,) = mounted.glob(f"{parent.service.id}/base/*/data.tar.gz")
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    failed = drilled(ground, parent)
    assert str(part.relative_to(mounted)) in (failed.archive_drill_failure or "")
    assert failed.archive_verified_at == proven.archive_verified_at
