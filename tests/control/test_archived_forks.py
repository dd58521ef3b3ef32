"""Forks of times, and of deleted services, that only the off-host archive has."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Holdings, Server, Source
from ramet.backends.memory.archive import MemoryArchive
from ramet.control import archived_forks, fork_estimates, fork_reports, forks, restore, services
from ramet.control.duties.archive import OffHostArchive, discard_old_archives
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.errors import Invalid, NotFound, Unavailable
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.operations.procedure import Procedure
from ramet.operations.worker import Worker
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.restores import verbs
from ramet.restores.verbs import RestoreRequest
from ramet.store import services as rows
from ramet.store.tables import operation, snapshot
from tests import procedure_laws as laws
from tests.worlds import World, fork_service, look

MICROSECOND = timedelta(microseconds=1)
AWAY = Unavailable("ARCHIVE_UNAVAILABLE", "The archive s3://bucket does not answer: timed out")


@pytest.fixture
def shop(archiving: World) -> Service:
    """A service with a base backup in the archive, two rows after it, and a snapshot that is later than all of that."""
    created = archiving.settle(
        services.create_service(
            archiving.plane, archiving.project.id, CreateRequest("shop", environment=Environment.PROD)
        )
    )
    archive(archiving)
    for value in ("one", "two"):
        archiving.backend.commit(created.id, value)
    archive(archiving)
    return forget_snapshots_before_now(archiving, created)


def archive(world: World) -> None:
    OffHostArchive(world.plane).maintain()
    # The duty records the progress of a service a few times a minute only.
    with world.store.write() as tx:
        for each in rows.live_services(tx):
            if each.archived_until is not None:
                rows.update_service(tx, each.id, archived_until=datetime.now(UTC))


def forget_snapshots_before_now(world: World, service: Service) -> Service:
    """Take a snapshot, and let all earlier ones expire."""
    kept = restore.take_snapshot(world.plane, world.project.id, service.id, None).id
    world.worker.run_until_idle()
    with world.store.write() as tx:
        tx.execute(snapshot.delete().where(snapshot.c.id != kept))
        tx.execute(snapshot.update().values(kind="SCHEDULED"))
    return look(world, service)


def committed(world: World, service: Service, value: str) -> datetime:
    return next(row.committed_at for row in world.backend.archive.rows[service.id] if row.value == value)


def at(target: datetime, **fields: object) -> ForkRequest:
    return ForkRequest(ForkStrategy.PITR, target_time=rfc3339(target), **fields)  # type: ignore[arg-type]


def test_the_restore_window_begins_where_the_archive_does(archiving: World, shop: Service) -> None:
    window = restore.get_restore_window(archiving.plane, archiving.project.id, shop.id)
    assert window.archive is not None
    assert window.earliest == window.archive.earliest == archiving.backend.archive.bases[shop.id][0]
    (snapshot,) = window.snapshots
    assert window.earliest < snapshot.taken_at
    (gap,) = window.gaps
    assert (gap.begins_at, gap.ends_at) == (window.archive.latest, snapshot.taken_at)


def test_a_fork_of_a_time_that_only_the_archive_has_contains_what_was_committed_then(
    archiving: World, shop: Service
) -> None:
    fork = archiving.fork(shop, at(committed(archiving, shop, "one")))
    assert archiving.backend.values(fork.id) == ["one"]
    report = fork_reports.fork_report(archiving.plane, archiving.project.id, fork.id)
    assert report.facts.capture.archive is not None
    assert "SHA-256" in fork_reports.checks_of(report)[0]


def test_a_time_that_a_snapshot_reaches_is_not_downloaded(archiving: World, shop: Service) -> None:
    plan = forks.plan_fork(archiving.plane, archiving.project.id, shop.id, at(datetime.now(UTC)))
    assert plan.base_backup is None
    assert plan.point.base is not None


def test_the_plan_says_what_is_downloaded_and_how_long_that_takes(archiving: World, shop: Service) -> None:
    request = at(committed(archiving, shop, "two"))
    plan = forks.plan_fork(archiving.plane, archiving.project.id, shop.id, request)
    estimate = fork_estimates.estimate_fork(archiving.plane, plan)
    assert plan.base_backup is not None
    assert estimate.download_bytes is not None
    assert estimate.download_bytes >= plan.base_backup.download_bytes
    assert estimate.seconds > 0


def test_times_between_the_archive_and_the_snapshots_are_refused_with_what_there_is(
    archiving: World, shop: Service
) -> None:
    window = restore.get_restore_window(archiving.plane, archiving.project.id, shop.id)
    target = window.gaps[0].begins_at + MICROSECOND
    with pytest.raises(Invalid, match="neither a snapshot nor the off-host archive has these times") as refused:
        forks.plan_fork(archiving.plane, archiving.project.id, shop.id, at(target))
    assert rfc3339(window.gaps[0].begins_at) in str(refused.value)


def test_while_the_archive_is_away_the_times_that_do_not_need_it_are_named(archiving: World, shop: Service) -> None:
    request = at(committed(archiving, shop, "one"))
    archiving.backend.archive.fault = AWAY
    window = restore.get_restore_window(archiving.plane, archiving.project.id, shop.id)
    with pytest.raises(Unavailable, match="does not answer") as refused:
        forks.plan_fork(archiving.plane, archiving.project.id, shop.id, request)
    assert f"times from {rfc3339(window.snapshots[0].taken_at)} on" in str(refused.value)


def test_a_gap_in_local_wal_is_served_by_the_archive(archiving: World, shop: Service) -> None:
    archiving.backend.commit(shop.id, "three")
    archive(archiving)
    target = committed(archiving, shop, "three")
    volume = archiving.backend.volumes[shop.id]
    volume.gaps = [Gap(target - MICROSECOND, target + MICROSECOND, "WAL segment 1 is missing")]
    window = restore.get_restore_window(archiving.plane, archiving.project.id, shop.id)
    assert not [gap for gap in window.gaps if gap.contains(target)]
    fork = archiving.fork(shop, at(target))
    assert archiving.backend.values(fork.id) == ["one", "two", "three"]


def lose(world: World, service: Service) -> Gap:
    """Let the archive lose the WAL around the row "one"."""
    target = committed(world, service, "one")
    hole = Gap(target - MICROSECOND, target + MICROSECOND, "WAL segment 3 was lost")
    world.backend.archive.gaps[service.id] = [hole]
    archive(world)
    return hole


def test_a_time_of_lost_wal_is_a_gap_and_refused_with_the_reason(archiving: World, shop: Service) -> None:
    hole = lose(archiving, shop)
    assert restore.get_restore_window(archiving.plane, archiving.project.id, shop.id).gaps[0] == hole
    with pytest.raises(Invalid, match=r"is in a gap of the restore window.* WAL segment 3 was lost"):
        forks.plan_fork(archiving.plane, archiving.project.id, shop.id, at(hole.begins_at + MICROSECOND))
    assert archiving.backend.values(archiving.fork(shop, at(hole.begins_at)).id) == []
    assert archiving.backend.values(archiving.fork(shop, at(hole.ends_at or hole.begins_at)).id) == ["one"]


def test_a_time_of_lost_wal_is_refused_of_a_deleted_service_too(archiving: World, shop: Service) -> None:
    hole = lose(archiving, shop)
    services.delete_service(archiving.plane, archiving.project.id, shop.id)
    archiving.worker.run_until_idle()
    with pytest.raises(Invalid, match="WAL segment 3 was lost"):
        forks.plan_fork(
            archiving.plane, archiving.project.id, shop.id, at(hole.begins_at + MICROSECOND, from_deleted=True)
        )


def test_lost_wal_is_remembered_until_the_archive_begins_after_it(archiving: World, shop: Service) -> None:
    lose(archiving, shop)
    archiving.backend.archive.gaps.clear()
    with archiving.store.write() as tx:  # as after a recovery, which knows no base backup until it takes one
        rows.update_service(tx, shop.id, archive_from=None)
    archiving.backend.archive.bases[shop.id].append(datetime.now(UTC))
    archive(archiving)
    assert look(archiving, shop).archive_gaps
    archiving.backend.archive.bases[shop.id] = [datetime.now(UTC)]
    discard_old_archives(archiving.plane, timedelta(days=30), archiving.plane.clock)
    archive(archiving)
    assert not look(archiving, shop).archive_gaps


def test_lost_wal_is_remembered_while_no_base_backup_is_known(
    archiving: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    hole = lose(archiving, shop)
    lost = ArchiveState(problem="The archive has lost base backup 20260101T000000")
    monkeypatch.setattr(MemoryArchive, "maintain", lambda *_, **__: lost)
    archive(archiving)
    found = look(archiving, shop)
    assert (found.archived_until, found.archive_gaps) == (None, (hole,))


@pytest.fixture
def deleted(archiving: World, shop: Service) -> Service:
    archiving.backend.commit(shop.id, "three")
    services.delete_service(archiving.plane, archiving.project.id, shop.id)
    archiving.worker.run_until_idle()
    with archiving.store.read() as tx:
        found = rows.get_service(tx, shop.id)
    assert found is not None
    assert found.deleted_at is not None
    return found


def test_what_the_archive_did_not_have_is_sent_before_a_service_is_deleted(archiving: World, deleted: Service) -> None:
    (listed,) = archived_forks.list_deleted(archiving.plane, archiving.project.id)
    assert listed.service.id == deleted.id
    assert listed.held.latest > committed(archiving, deleted, "three")


def test_a_deleted_service_is_forked_in_its_last_state(archiving: World, deleted: Service) -> None:
    fork = archiving.fork(deleted, ForkRequest(ForkStrategy.NOW, from_deleted=True))
    assert fork.name == "shop-fork"
    assert archiving.backend.values(fork.id) == ["one", "two", "three"]


def test_a_deleted_service_is_forked_as_of_a_time(archiving: World, deleted: Service) -> None:
    fork = archiving.fork(deleted, at(committed(archiving, deleted, "two"), from_deleted=True))
    assert archiving.backend.values(fork.id) == ["one", "two"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (ForkRequest(ForkStrategy.LAST_SNAPSHOT, from_deleted=True), "deleted together with its snapshots"),
        (at(datetime(2020, 1, 1, tzinfo=UTC), from_deleted=True), "outside of what the off-host archive has"),
    ],
    ids=["snapshot", "before"],
)
def test_what_a_deleted_service_cannot_be_forked_to_is_refused(
    archiving: World, deleted: Service, request_: ForkRequest, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        forks.plan_fork(archiving.plane, archiving.project.id, deleted.id, request_)


def test_from_deleted_is_for_deleted_services_and_needs_to_be_said(archiving: World, shop: Service) -> None:
    with pytest.raises(Invalid, match="from_deleted is for deleted services"):
        forks.plan_fork(
            archiving.plane, archiving.project.id, shop.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
        )
    services.delete_service(archiving.plane, archiving.project.id, shop.id)
    archiving.worker.run_until_idle()
    with pytest.raises(NotFound):
        forks.plan_fork(archiving.plane, archiving.project.id, shop.id, ForkRequest(ForkStrategy.NOW))


def test_the_archive_of_a_deleted_service_expires_with_the_window(archiving: World, deleted: Service) -> None:
    window = timedelta(days=30)
    discard_old_archives(archiving.plane, window, lambda: datetime.now(UTC) + timedelta(days=29))
    assert len(archived_forks.list_deleted(archiving.plane, archiving.project.id)) == 1
    discard_old_archives(archiving.plane, window, lambda: datetime.now(UTC) + timedelta(days=31))
    assert archived_forks.list_deleted(archiving.plane, archiving.project.id) == []
    assert deleted.id not in archiving.backend.archive.bases
    with pytest.raises(Invalid, match="has nothing of the deleted service"):
        forks.plan_fork(
            archiving.plane, archiving.project.id, deleted.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
        )


def test_a_deleted_service_can_be_forked_after_a_listing_that_was_empty_once(
    archiving: World, deleted: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MemoryArchive, "holdings", lambda *_: Holdings([]))
        discard_old_archives(archiving.plane, timedelta(days=30), archiving.plane.clock)
    fork = archiving.fork(deleted, ForkRequest(ForkStrategy.NOW, from_deleted=True))
    assert archiving.backend.values(fork.id) == ["one", "two", "three"]


def test_nothing_expires_while_a_fork_needs_it(archiving: World, deleted: Service) -> None:
    accepted = fork_service(
        archiving.plane, archiving.project.id, deleted.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
    )
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: datetime.now(UTC) + timedelta(days=31))
    assert deleted.id in archiving.backend.archive.bases
    assert archiving.settle(accepted).ready_at is not None


def test_an_archive_that_is_away_during_the_download_shows_in_the_operation(
    archiving: World, deleted: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = fork_service(
        archiving.plane, archiving.project.id, deleted.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
    )
    fetch, answers = archiving.backend.archive.fetch, list[str | None]()

    def away_at_first(child: Server, source: Source, timeout_seconds: float) -> str | None:
        archiving.backend.archive.fault = AWAY if not answers else None
        answers.append(fetch(child, source, timeout_seconds))
        return answers[-1]

    monkeypatch.setattr(archiving.backend.archive, "fetch", away_at_first)
    assert archiving.settle(accepted).ready_at is not None
    assert answers[0] == str(AWAY)
    assert answers[-1] is None


@pytest.mark.parametrize("rewrite", [laws.twice, laws.crashing], ids=["run twice", "crashed"])
def test_a_capture_from_the_archive_may_run_twice(
    archiving: World, deleted: Service, rewrite: Callable[[Procedure, str], Procedure]
) -> None:
    accepted = fork_service(
        archiving.plane, archiving.project.id, deleted.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
    )
    rewritten = laws.rewritten(archiving.procedures, "fork", lambda procedure: rewrite(procedure, "capture"))
    with contextlib.suppress(laws.Crash):
        Worker(archiving.store, rewritten).run_until_idle()
    with archiving.store.write() as tx:
        tx.execute(operation.update().values(run_at=0.0))
    assert archiving.settle(accepted).ready_at is not None
    assert archiving.backend.values(accepted.service.id) == ["one", "two", "three"]
    assert archiving.backend.fetched == {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_fork_from_the_archive_that_fails_leaves_nothing(archiving: World, deleted: Service, after: bool) -> None:
    accepted = fork_service(
        archiving.plane, archiving.project.id, deleted.id, ForkRequest(ForkStrategy.NOW, from_deleted=True)
    )
    rewritten = laws.rewritten(
        archiving.procedures, "fork", lambda procedure: laws.failing(procedure, "capture", after=after)
    )
    Worker(archiving.store, rewritten).run_until_idle()
    assert look(archiving, accepted.service).failed_at is not None
    assert archiving.leftovers() == []
    assert archiving.backend.fetched == {}


def test_the_clean_up_waits_for_a_restore_in_place_from_the_archive(archiving: World, shop: Service) -> None:
    now = datetime.now(UTC)
    request = RestoreRequest(target_time=rfc3339(committed(archiving, shop, "one")), confirm=shop.name)
    verbs.restore_service(archiving.plane, archiving.project.id, shop.id, request)
    bases = archiving.backend.archive.bases
    bases[shop.id] = [*(now - timedelta(days=age) for age in (40, 35)), *bases[shop.id]]
    before = list(bases[shop.id])
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: now)
    assert bases[shop.id] == before
    archiving.worker.run_until_idle()
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: now)
    assert bases[shop.id][0] == now - timedelta(days=35)


@pytest.mark.parametrize(("base_backup_id", "is_read"), [("20260101T000000", True), (None, False)])
def test_a_drill_keeps_the_base_backup_that_it_copies(world: World, base_backup_id: str | None, is_read: bool) -> None:
    service = world.create()
    state = DrillState(drill_id=new_id(), is_off_host=True, base_backup_id=base_backup_id)
    with world.store.write() as tx:
        submit(tx, ProcedureName.DRILL, service.id, state)
        assert rows.has_copies_under_way(tx, service.id) is is_read
