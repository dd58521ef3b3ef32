"""The off-host archive: which services are sent there, and what clients see of it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.api.shapes import service_shape
from ramet.backends.interface.archive import ARCHIVE_BUSY, ArchiveState
from ramet.backends.interface.values import Server
from ramet.control import archive, restore, services
from ramet.control.duties.archive import ArchiveChecks, OffHostArchive, discard_old_archives
from ramet.control.duties.sampling import Sampling
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service
from ramet.store import metrics
from ramet.store import services as rows
from tests.worlds import World, look

AWAY = Unavailable("ARCHIVE_UNAVAILABLE", "The archive s3://bucket does not answer: timed out")


def create(world: World, environment: Environment = Environment.PROD) -> Service:
    request = CreateRequest("shop", environment=environment)
    return world.settle(services.create_service(world.plane, world.project.id, request))


def maintain(world: World) -> None:
    OffHostArchive(world.plane).maintain()


def test_production_services_are_archived_and_clients_see_until_when(archiving: World) -> None:
    service = create(archiving)
    maintain(archiving)
    found = look(archiving, service)
    assert found.archived_until is not None
    assert service_shape(found).metadata.archived_until == found.archived_until
    view = archive.get_archive(archiving.plane, archiving.project.id, service.id)
    assert (view.enabled, view.url, view.problem) == (True, "s3://bucket", None)
    assert view.lag_seconds is not None
    assert view.lag_seconds >= 0


def test_development_services_are_archived_when_somebody_asks_for_it(archiving: World) -> None:
    service = create(archiving, Environment.DEV)
    maintain(archiving)
    assert look(archiving, service).archived_until is None
    archive.set_archive(archiving.plane, archiving.project.id, service.id, True)
    maintain(archiving)
    assert look(archiving, service).archived_until is not None


def test_a_service_whose_archive_is_switched_off_shows_no_archive(archiving: World) -> None:
    service = create(archiving)
    maintain(archiving)
    until = look(archiving, service).archived_until
    view = archive.set_archive(archiving.plane, archiving.project.id, service.id, False)
    assert (view.enabled, view.lag_seconds, view.problem) == (False, None, None)
    maintain(archiving)
    assert look(archiving, service).archived_until == until
    assert service_shape(look(archiving, service)).metadata.archived_until is None
    assert archive.set_archive(archiving.plane, archiving.project.id, service.id, None).enabled


def test_without_an_archive_nothing_is_sent_and_switching_it_on_says_what_to_set(world: World) -> None:
    service = create(world)
    maintain(world)
    view = archive.get_archive(world.plane, world.project.id, service.id)
    assert (view.enabled, view.url) == (False, None)
    with pytest.raises(Invalid, match="RAMET_ARCHIVE_URL"):
        archive.set_archive(world.plane, world.project.id, service.id, True)


def test_an_archive_that_is_away_is_reported_and_costs_nothing_but_lag(archiving: World) -> None:
    service = create(archiving)
    maintain(archiving)
    before = look(archiving, service).archived_until
    archiving.backend.archive.fault = AWAY
    maintain(archiving)
    found = look(archiving, service)
    assert found.archived_until == before
    assert service_shape(found).metadata.archive_warning == str(AWAY)
    archiving.backend.archive.fault = None
    maintain(archiving)
    assert look(archiving, service).archive_problem is None


def test_an_archive_that_has_caught_up_is_said_so(archiving: World, caplog: pytest.LogCaptureFixture) -> None:
    service = create(archiving)
    maintain(archiving)
    archiving.backend.archive.fault = AWAY
    maintain(archiving)
    archiving.backend.archive.fault = None
    with caplog.at_level(logging.INFO):
        maintain(archiving)
        maintain(archiving)
    assert caplog.text.count(f"service {service.id}: the off-host archive has caught up, and has all until") == 1


def test_while_the_archive_is_away_services_are_asked_for_in_turn(
    archiving: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, asked = [create(archiving).id for _ in range(3)], list[str]()

    def away(server: Server, **_options: object) -> ArchiveState:
        asked.append(server.service_id)
        raise AWAY

    monkeypatch.setattr(archiving.backend.archive, "maintain", away)
    duty = OffHostArchive(archiving.plane)
    for _ in range(4):
        duty.maintain()
    assert asked == [*sorted(known), sorted(known)[0]]
    assert [services.get_service(archiving.plane, archiving.project.id, each).archive_problem for each in known] == [
        str(AWAY)
    ] * 3


def test_what_was_archived_before_the_archive_was_away_is_kept(
    archiving: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted((create(archiving) for _ in range(2)), key=lambda one: one.id)
    usual = archiving.backend.archive.maintain

    def away(server: Server, **options: Any) -> ArchiveState:
        if server.service_id == second.id:
            raise AWAY
        return usual(server, **options)

    monkeypatch.setattr(archiving.backend.archive, "maintain", away)
    maintain(archiving)
    found = look(archiving, first)
    assert found.archive_problem == str(AWAY)
    assert found.archived_until is not None
    assert found.archive_from is not None


def test_a_service_that_cannot_be_archived_keeps_no_other_from_it(
    archiving: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = create(archiving), create(archiving)
    usual = archiving.backend.archive.maintain

    def broken(server, **options):  # type: ignore[no-untyped-def]
        if server.service_id == first.id:
            raise Failed("ARCHIVE_GAP", "WAL segment 00000001 is missing")
        return usual(server, **options)

    monkeypatch.setattr(archiving.backend.archive, "maintain", broken)
    maintain(archiving)
    assert look(archiving, first).archive_problem == "WAL segment 00000001 is missing"
    assert look(archiving, second).archived_until is not None


def test_a_service_is_archived_as_it_is_when_its_turn_comes(archiving: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = sorted((create(archiving) for _ in range(3)), key=lambda one: one.id)
    services.stop_service(archiving.plane, archiving.project.id, second.id)
    archiving.worker.run_until_idle()
    usual, seen = archiving.backend.archive.maintain, list[tuple[str, bool]]()

    def maintained(server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        seen.append((server.service_id, paused))
        if server.service_id == first.id:
            services.start_service(archiving.plane, archiving.project.id, second.id)
            archiving.worker.run_until_idle()
            services.stop_service(archiving.plane, archiving.project.id, third.id)
        return usual(server, paused=paused, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(archiving.backend.archive, "maintain", maintained)
    maintain(archiving)
    assert seen == [(first.id, False), (second.id, False)]


@pytest.mark.parametrize("change", [services.delete_service, services.stop_service], ids=["deleted", "stopped"])
def test_what_an_operation_has_recorded_of_the_archive_is_kept(
    archiving: World, monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]
) -> None:
    service = create(archiving)
    maintain(archiving)
    usual, earlier = archiving.backend.archive.maintain, ArchiveState(problem="WAL segment 00000001 is missing")

    def late(server: Server, **options: Any) -> ArchiveState:
        with monkeypatch.context() as patched:
            patched.setattr(archiving.backend.archive, "maintain", usual)
            change(archiving.plane, archiving.project.id, service.id)
            archiving.worker.run_until_idle()
        return earlier

    monkeypatch.setattr(archiving.backend.archive, "maintain", late)
    maintain(archiving)
    with archiving.store.read() as tx:
        found = rows.get_service(tx, service.id)
    assert found is not None
    assert found.archived_until is not None
    assert found.archive_problem is None


def test_the_archive_is_read_back_within_a_budget_in_turns(archiving: World) -> None:
    known = sorted(create(archiving).id for _ in range(3))
    checks = ArchiveChecks(archiving.plane, budget_bytes=2000)
    checks.check()
    assert archiving.backend.archive.checked == [(known[0], 2000), (known[1], 1000)]
    checks.check()
    assert [service_id for service_id, _ in archiving.backend.archive.checked[2:]] == [known[2], known[0]]


def test_a_service_whose_archive_cannot_be_checked_keeps_no_other_from_it(
    archiving: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, checked = sorted(create(archiving).id for _ in range(2)), list[str]()

    def check(server: Server, _budget_bytes: int) -> int:
        checked.append(server.service_id)
        if server.service_id == known[0]:
            raise Unavailable(ARCHIVE_BUSY, "Other work uses the archive")
        return 1000

    monkeypatch.setattr(archiving.backend.archive, "check", check)
    ArchiveChecks(archiving.plane, budget_bytes=1000).check()
    assert checked == known


def test_an_archive_that_is_away_is_not_checked(archiving: World, caplog: pytest.LogCaptureFixture) -> None:
    service = create(archiving)
    archiving.backend.archive.fault = AWAY
    ArchiveChecks(archiving.plane, budget_bytes=2000).check()
    assert f"the archive of service {service.id} is not checked" in caplog.text


def test_the_lag_is_a_metric(archiving: World) -> None:
    service = create(archiving)
    maintain(archiving)
    Sampling(archiving.plane).sample()
    with archiving.store.read() as tx:
        sample = metrics.last_sample(tx, service.id, datetime.now(UTC) - timedelta(minutes=1))
    assert sample is not None
    assert sample.values["ramet_archive_lag_seconds"] >= 0


def test_local_wal_is_kept_until_the_archive_has_it(archiving: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = create(archiving)
    discarded = list[str]()
    monkeypatch.setattr(
        archiving.backend.restore, "discard_wal", lambda service_id, _oldest: discarded.append(service_id)
    )
    archiving.backend.commit(service.id, "row")
    later = replace(archiving.plane, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    ScheduledSnapshots(later).take_due()
    archiving.worker.run_until_idle()
    assert discarded == []
    maintain(archiving)
    archiving.backend.commit(service.id, "another row")
    ScheduledSnapshots(replace(later, clock=lambda: datetime.now(UTC) + timedelta(hours=2))).take_due()
    archiving.worker.run_until_idle()
    assert discarded == [service.id]


def test_old_base_backups_are_discarded_but_the_one_that_the_window_begins_with(archiving: World) -> None:
    service = create(archiving)
    now = datetime.now(UTC)
    ages = [40, 35, 20, 3]
    archiving.backend.archive.bases[service.id] = [now - timedelta(days=age) for age in ages]
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: now)
    assert [(now - base).days for base in archiving.backend.archive.bases[service.id]] == [35, 20, 3]


@pytest.mark.parametrize("error", [Failed("ARCHIVE_DAMAGED", "damaged"), Unavailable(ARCHIVE_BUSY, "in use")])
def test_a_service_whose_archive_cannot_be_cleaned_up_keeps_no_other_from_it(
    archiving: World, monkeypatch: pytest.MonkeyPatch, error: Failed | Unavailable
) -> None:
    known = {create(archiving).id for _ in range(2)}
    asked: list[str] = []

    def damaged(server: Server, before: datetime) -> None:
        asked.append(server.service_id)
        raise error

    now = datetime.now(UTC)
    for each in known:
        archiving.backend.archive.bases[each] = [now - timedelta(days=age) for age in (40, 35, 3)]
    monkeypatch.setattr(archiving.backend.archive, "discard", damaged)
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: now)
    assert set(asked) == known


def test_the_archive_of_a_service_that_was_switched_off_expires_with_the_window(archiving: World) -> None:
    service = create(archiving)
    maintain(archiving)
    archive.set_archive(archiving.plane, archiving.project.id, service.id, False)
    window, now = timedelta(days=30), datetime.now(UTC)
    discard_old_archives(archiving.plane, window, lambda: now + timedelta(days=29))
    assert service.id in archiving.backend.archive.bases
    assert restore.get_restore_window(archiving.plane, archiving.project.id, service.id).archive is not None
    discard_old_archives(archiving.plane, window, lambda: now + timedelta(days=31))
    assert service.id not in archiving.backend.archive.bases
    assert restore.get_restore_window(archiving.plane, archiving.project.id, service.id).archive is None


NO_BASE = ArchiveState(problem="The archive has no complete base backup")


def without_newest_base(archiving: World, monkeypatch: pytest.MonkeyPatch, had_base: bool) -> Service:
    """Return a service whose WAL is in the archive, and whose newest base backup is lost, or was never complete."""
    service, kept = create(archiving), archiving.backend.archive
    if had_base:
        maintain(archiving)
    monkeypatch.setattr(kept, "maintain", lambda *_, **__: NO_BASE)
    maintain(archiving)
    kept.rows[service.id] = ()  # its WAL
    return service


@pytest.mark.parametrize("had_base", [False, True], ids=["before the first", "after the loss of the newest"])
@pytest.mark.parametrize("switched_off", [False, True], ids=["archived", "switched off"])
def test_what_the_archive_has_of_a_deleted_service_without_a_newest_base_backup_is_removed(
    archiving: World, monkeypatch: pytest.MonkeyPatch, had_base: bool, switched_off: bool
) -> None:
    service, kept = without_newest_base(archiving, monkeypatch, had_base), archiving.backend.archive
    if switched_off:
        services.set_environment(archiving.plane, archiving.project.id, service.id, Environment.DEV)
    days = timedelta(days=1)
    discard_old_archives(archiving.plane, 30 * days, lambda: datetime.now(UTC))
    services.delete_service(archiving.plane, archiving.project.id, service.id)
    archiving.worker.run_until_idle()
    discard_old_archives(archiving.plane, 30 * days, lambda: datetime.now(UTC) + 29 * days)
    assert (service.id in kept.rows) is (had_base or not switched_off)  # else it was removed before the deletion
    discard_old_archives(archiving.plane, 30 * days, lambda: datetime.now(UTC) + 31 * days)
    assert service.id not in kept.rows
    with archiving.store.read() as tx:
        assert rows.deleted_in_archive(tx) == []


@pytest.mark.parametrize(("had_base", "days"), [(False, 0), (True, 31)], ids=["before the first", "after a loss"])
def test_what_the_archive_has_of_a_switched_off_service_without_a_newest_base_backup_is_removed(
    archiving: World, monkeypatch: pytest.MonkeyPatch, had_base: bool, days: int
) -> None:
    service, kept = without_newest_base(archiving, monkeypatch, had_base), archiving.backend.archive
    kept.sending.add(service.id)
    services.set_environment(archiving.plane, archiving.project.id, service.id, Environment.DEV)

    def is_there_after(days: int) -> bool:
        now = datetime.now(UTC) + timedelta(days=days)
        discard_old_archives(archiving.plane, timedelta(days=30), lambda: now)
        return service.id in kept.rows and look(archiving, service).archive_from is not None

    assert is_there_after(days)
    kept.sending.clear()
    assert is_there_after(0) is had_base
    assert not is_there_after(days)
    assert service.id not in kept.rows
    assert look(archiving, service).archive_from is None


def test_what_a_service_sends_is_known_before_it_is_sent(archiving: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service, known = create(archiving), list[datetime | None]()

    def maintained(_server: Server, **_options: object) -> ArchiveState:
        known.append(look(archiving, service).archive_from)
        raise AWAY

    monkeypatch.setattr(archiving.backend.archive, "maintain", maintained)
    maintain(archiving)
    assert known == [service.created_at]


def test_the_window_of_the_archive_begins_with_the_base_backup_that_is_known(
    archiving: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, kept = create(archiving), archiving.backend.archive
    with monkeypatch.context() as patched:
        patched.setattr(kept, "maintain", lambda *_, **__: NO_BASE)
        maintain(archiving)
        assert restore.get_restore_window(archiving.plane, archiving.project.id, service.id).archive is None
    older, newer = datetime.now(UTC) - timedelta(days=2), datetime.now(UTC) - timedelta(days=1)
    kept.bases[service.id] = [older, newer]
    maintain(archiving)
    assert look(archiving, service).archive_from == newer
    discard_old_archives(archiving.plane, timedelta(days=30), lambda: datetime.now(UTC))
    maintain(archiving)
    assert look(archiving, service).archive_from == older


def test_a_fork_in_development_is_not_archived(archiving: World) -> None:
    fork = archiving.fork(create(archiving), ForkRequest(ForkStrategy.NOW))
    maintain(archiving)
    assert look(archiving, fork).archived_until is None
