"""Services whose storage takes no snapshots: forks are copies, and the past is in the archive only."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.control import restore
from ramet.control.duties.archive import discard_old_archives
from ramet.control.duties.drills import submit_due_drill
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.fork_estimates import estimate_fork
from ramet.control.forks import plan_fork
from ramet.control.requests import ForkRequest
from ramet.errors import Invalid
from ramet.model.fork import ForkStrategy
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.store import operations, snapshots
from tests.worlds import World, fork_service


@pytest.fixture
def plain(world: World) -> World:
    world.backend.takes_snapshots = False
    return world


def test_a_service_is_made_and_forked(plain: World) -> None:
    parent = plain.create()
    plain.backend.commit(parent.id, "kept")
    plan = plan_fork(plain.plane, plain.project.id, parent.id, ForkRequest(ForkStrategy.NOW))
    estimate = estimate_fork(plain.plane, plan)
    assert estimate.copied_bytes is not None
    assert estimate.copied_bytes > 0
    fork = plain.fork(parent)
    assert status_of(fork) is Status.READY
    assert plain.backend.values(fork.id) == ["kept"]
    plain.worker.run_until_idle()
    with plain.store.read() as tx:
        assert [snapshots.list_snapshots(tx, one.id) for one in (parent, fork)] == [[], []]


def test_snapshots_are_refused_and_none_is_due(plain: World) -> None:
    parent = plain.create()
    with pytest.raises(Invalid, match="takes no snapshots") as refused:
        fork_service(plain.plane, plain.project.id, parent.id, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert "NOW" in refused.value.details
    with pytest.raises(Invalid, match="takes no snapshots"):
        restore.take_snapshot(plain.plane, plain.project.id, parent.id, None)
    ScheduledSnapshots(plain.plane).take_due()
    submit_due_drill(plain.plane, timedelta(0))
    with plain.store.read() as tx:
        assert not operations.is_busy(tx)


def test_old_wal_of_services_that_are_not_archived_is_removed(plain: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot does that, and on Kubernetes each service archives its WAL."""
    service, archive = plain.create(), plain.backend.archive
    archive.location = "s3://bucket"
    asked: list[tuple[str, timedelta]] = []
    now, window = datetime.now(UTC), timedelta(days=30)
    monkeypatch.setattr(archive, "discard", lambda server, before: asked.append((server.service_id, now - before)))
    for _ in range(2):
        discard_old_archives(plain.plane, window, lambda: now)
    assert [one for one, _ in asked] == [service.id] * 2
    assert all(age >= window for _, age in asked)
