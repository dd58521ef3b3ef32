"""Restore drills and fork reports over the whole product with real servers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.waiting import eventually
from prove.ground import Ground, Running
from ramet.api.routes.forks import report_shape
from ramet.backends.local.sql import connections
from ramet.backends.local.wal import digests
from ramet.control.duties.drills import submit_due_drill
from ramet.control.fork_reports import fork_report
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.store import operations
from tests.proofs.ledgers import append, at, rows


def quiet_down(ground: Ground) -> None:
    """Wait until no operation is under way, so that a drill does not yield for long."""

    def is_idle() -> bool:
        with ground.store.read() as tx:
            return not operations.is_busy(tx)

    eventually(is_idle)


def drilled(ground: Ground, parent: Running) -> Service:
    """Let a drill of the service run to its end."""
    before = ground.look(parent).drilled_at
    quiet_down(ground)
    submit_due_drill(ground.plane, timedelta(0))
    eventually(lambda: ground.look(parent).drilled_at != before)
    return ground.look(parent)


def directories(ground: Ground) -> set[Path]:
    return set(ground.backend.instances.layout.services.iterdir())


def test_a_drill_recovers_reads_and_drops_a_real_server(ground: Ground, parent: Running) -> None:
    append(parent, 1, 2, 3)
    before, there = datetime.now(UTC), directories(ground)
    proven = drilled(ground, parent)
    assert proven.drill_failure is None
    assert proven.last_verified_at is not None
    assert proven.last_verified_at > before
    assert directories(ground) == there


def test_a_drill_finds_an_altered_segment(ground: Ground, parent: Running) -> None:
    append(parent, 1)
    paths = ground.backend.instances.paths(parent.service.id)
    with connections.connect(paths) as connection:
        connection.execute("SELECT pg_switch_wal()")
    eventually(lambda: any(len(path.name) == 24 for path in paths.archive.iterdir()))
    digests.record(paths, 10.0)
    victim = paths.archive / max(digests.digests(paths))
    with victim.open("r+b") as file:
        file.seek(15 * 1024 * 1024 + 4000)
        file.write(b"x")
    failed = drilled(ground, parent)
    assert victim.name in (failed.drill_failure or "")


@pytest.mark.parametrize("strategy", list(ForkStrategy))
def test_every_fork_has_a_report_with_its_exact_border(ground: Ground, parent: Running, strategy: ForkStrategy) -> None:
    times = append(parent, 1, 2, 3)
    request = at(times[1]) if strategy is ForkStrategy.PITR else ForkRequest(strategy)
    fork = ground.fork(parent, request)
    append(parent, 4)
    eventually(lambda: "statistics" in (ground.look(fork).report or {}))
    report = report_shape(fork_report(ground.plane, ground.project_id, fork.service.id))
    assert report.strategy == strategy
    assert [step.step for step in report.steps] == ["capture", "recover", "boot", "secure", "publish"]
    assert report.wal.first_segment is not None
    assert len(report.checks) >= 2
    if strategy is ForkStrategy.PITR:
        assert rows(fork) == [1, 2]
        assert report.last_included is not None
        assert report.first_excluded is not None
        assert (report.last_included.time, report.first_excluded.time) == (
            rfc3339(times[1]),
            rfc3339(times[2]),
        )
    ground.delete(fork)
