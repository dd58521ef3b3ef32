"""Restore drills, and the warnings that clients see."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.api.shapes import service_shape
from ramet.backends.interface.values import Capture, Server, Source
from ramet.control import archive, services
from ramet.control.duties.archive import OffHostArchive
from ramet.control.duties.drills import record_overdue_drills, submit_due_drill
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.sampling import Sampling
from ramet.control.high_availability import set_ha
from ramet.control.plane import Plane
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.errors import Unavailable
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap
from ramet.model.high_availability import NO_STANDBYS
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, restore_warning
from ramet.operations.procedure import Outcome, Procedure, Work
from ramet.operations.worker import Worker
from ramet.procedures.spec import submit
from ramet.procedures.state import OneSnapshotState
from ramet.store import metrics, operations
from ramet.store.services import update_service
from ramet.store.tables import operation
from tests import procedure_laws as laws
from tests.restores.restoring import checkpoint, rewind
from tests.worlds import World, fork_service, look

DAY = timedelta(days=1)


def ahead(world: World, duration: timedelta) -> Plane:
    return replace(world.plane, clock=lambda: datetime.now(UTC) + duration)


def drill(world: World, service: Service) -> Service:
    """Let a drill that is due run to its end."""
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    return look(world, service)


def test_a_drill_verifies_the_newest_restorable_time_and_leaves_nothing(world: World) -> None:
    service = world.create()
    before = datetime.now(UTC)
    proven = drill(world, service)
    assert proven.last_verified_at is not None
    assert before < proven.last_verified_at < datetime.now(UTC)
    assert world.leftovers() == []
    assert service_shape(proven).metadata.last_proven_restore == proven.last_verified_at


def test_the_server_of_a_drill_has_no_standbys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.backend.has_standbys = True
    service = world.create()
    set_ha(world.plane, world.project.id, service.id, 2)
    world.worker.run_until_idle()
    made, capture = list[Server](), world.backend.restore.capture

    def noting(child: Server, source: Source) -> Capture | None:
        made.append(child)
        return capture(child, source)

    monkeypatch.setattr(world.backend.restore, "capture", noting)
    assert drill(world, service).last_verified_at is not None
    assert [one.standbys for one in made] == [NO_STANDBYS]


def test_a_preparation_that_rests_does_not_hold_up_drills(world: World) -> None:
    service = world.create()
    with world.store.write() as tx:
        resting = submit(tx, ProcedureName.PREPARE, service.id, OneSnapshotState(snapshot_id="a" * 10))
        tx.execute(operation.update().where(operation.c.id == resting).values(run_at=operation.c.run_at + 3600))
    assert drill(world, service).last_verified_at is not None


def test_a_drill_waits_until_the_host_has_room_for_its_server(world: World) -> None:
    service = world.create()
    world.backend.startable = 0
    assert drill(world, service).drilled_at is None
    with world.store.read() as tx:
        (waiting,) = operations.of_subject(tx, service.id)[:1]
    assert (waiting.procedure, waiting.step) == (ProcedureName.DRILL, "choose")
    assert waiting.progress == "room on the host: 0 of 0 servers are in use"
    world.backend.startable = 1
    with world.store.write() as tx:
        tx.execute(operation.update().values(run_at=0))
    world.worker.run_until_idle()
    assert look(world, service).last_verified_at is not None


def test_a_drill_is_never_listed_and_changes_no_status(world: World) -> None:
    service = world.create()
    submit_due_drill(world.plane, timedelta(0))
    (listed,) = services.list_services(world.plane, world.project.id)
    assert (listed.id, listed.activity) == (service.id, None)


def test_where_no_wal_is_kept_nothing_is_drilled_or_overdue(world: World) -> None:
    service = world.create()
    world.backend.archive.has_all_wal = True
    with world.store.write() as tx:
        update_service(tx, service.id, drill_failure="of an earlier release")
    assert drill(world, service).drilled_at is None
    record_overdue_drills(ahead(world, 9 * DAY))
    assert restore_warning(look(world, service)) is None
    world.backend.archive.location = "memory://"
    assert drill(world, service).last_verified_at is not None


def test_where_no_wal_is_kept_a_paused_service_loses_its_old_warning(world: World) -> None:
    service = world.create()
    services.stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    world.backend.archive.has_all_wal = True
    with world.store.write() as tx:
        update_service(tx, service.id, drill_failure="of an earlier release")
    record_overdue_drills(world.plane)
    assert restore_warning(look(world, service)) is None


def test_damage_is_reported_in_metadata_and_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    service = world.create()
    world.backend.volumes[service.id].damage = "heap table ledger, block 7: bad"
    with caplog.at_level(logging.ERROR):
        failed = drill(world, service)
    assert failed.last_verified_at is None
    assert "block 7" in (restore_warning(failed) or "")
    assert "block 7" in service_shape(failed).metadata.restore_warning  # type: ignore[operator]
    assert any("restore drill" in record.message for record in caplog.records)
    assert world.leftovers() == []


def test_a_gap_in_the_archive_fails_the_drill(world: World) -> None:
    service = world.create()
    world.backend.volumes[service.id].gaps.append(Gap(datetime.now(UTC), None, "WAL segment X is missing."))
    assert "WAL segment X is missing." in (drill(world, service).drill_failure or "")


def test_a_drill_that_succeeds_clears_the_warning(world: World) -> None:
    service = world.create()
    world.backend.volumes[service.id].damage = "bad"
    assert drill(world, service).drill_failure is not None
    world.backend.volumes[service.id].damage = ""
    assert restore_warning(drill(world, service)) is None


def archived_service(world: World) -> Service:
    request = CreateRequest("shop", environment=Environment.PROD)
    service = world.settle(services.create_service(world.plane, world.project.id, request))
    OffHostArchive(world.plane).maintain()
    return look(world, service)


def test_drills_take_their_turns_with_the_off_host_archive(archiving: World) -> None:
    service = archived_service(archiving)
    first = drill(archiving, service)
    assert (first.last_verified_at is None, first.archive_verified_at) == (False, None)
    second = drill(archiving, service)
    assert second.archive_verified_at == second.archived_until
    assert second.last_verified_at == first.last_verified_at
    third = drill(archiving, service)
    assert third.archive_verified_at == second.archive_verified_at
    assert third.last_verified_at > first.last_verified_at  # type: ignore[operator]
    assert archiving.leftovers() == []
    shown = service_shape(third).metadata
    assert shown.last_proven_archive_restore == third.archive_verified_at
    view = archive.get_archive(archiving.plane, archiving.project.id, service.id)
    assert view.last_proven_restore == third.archive_verified_at


def test_a_drill_from_the_archive_uses_nothing_of_the_host(archiving: World) -> None:
    service = archived_service(archiving)
    drill(archiving, service)
    archiving.backend.volumes[service.id].damage = "heap table ledger, block 7: bad"
    archiving.backend.volumes[service.id].gaps.append(Gap(datetime.now(UTC), None, "WAL segment X is missing."))
    assert drill(archiving, service).archive_verified_at is not None


def test_a_drill_from_the_archive_that_fails_is_reported_beside_the_local_one(archiving: World) -> None:
    service = archived_service(archiving)
    drill(archiving, service)
    archiving.backend.archive.bases[service.id] = []
    failed = drill(archiving, service)
    assert "no base backup" in (failed.archive_drill_failure or "")
    assert failed.drill_failure is None
    assert "no base backup" in (service_shape(failed).metadata.archive_warning or "")
    local = drill(archiving, service)
    assert local.archive_drill_failure == failed.archive_drill_failure
    archiving.backend.archive.bases[service.id] = [service.created_at]
    assert drill(archiving, service).archive_drill_failure is None


def test_while_the_archive_is_away_the_local_copy_is_drilled(archiving: World) -> None:
    service = archived_service(archiving)
    first = drill(archiving, service)
    archiving.backend.archive.fault = Unavailable("ARCHIVE_UNAVAILABLE", "The archive does not answer")
    second = drill(archiving, service)
    assert second.last_verified_at > first.last_verified_at  # type: ignore[operator]
    assert second.archive_drilled_at is None


def test_an_overdue_drill_from_the_archive_is_reported(archiving: World) -> None:
    service = archived_service(archiving)
    record_overdue_drills(ahead(archiving, 4 * DAY + timedelta(minutes=1)))
    failure = look(archiving, service).archive_drill_failure
    assert "No restore from the off-host archive has been verified since" in (failure or "")


def test_the_age_of_each_verified_restore_is_a_metric(archiving: World) -> None:
    service = archived_service(archiving)
    drill(archiving, service)
    drill(archiving, service)
    Sampling(archiving.plane).sample()
    with archiving.store.read() as tx:
        sample = metrics.last_sample(tx, service.id, datetime.now(UTC) - timedelta(minutes=1))
    assert sample is not None
    assert {"ramet_restore_verified_age_seconds", "ramet_archive_verified_age_seconds"} <= set(sample.values)


def test_without_an_archive_the_age_of_a_verified_restore_is_a_metric_too(world: World) -> None:
    service = world.create()
    assert (verified_age(ahead(world, 15 * DAY), service) or 0) > 14 * DAY.total_seconds()  # it was never drilled
    drill(world, service)
    assert (verified_age(ahead(world, DAY), service) or 0) < 2 * DAY.total_seconds()
    world.backend.archive.has_all_wal = True  # no drill can be made
    assert verified_age(ahead(world, 16 * DAY), service) is None


def verified_age(plane: Plane, service: Service) -> float | None:
    Sampling(plane).sample()
    with plane.store.read() as tx:
        sample = metrics.last_sample(tx, service.id, plane.clock() - timedelta(minutes=1))
    return None if sample is None else sample.values.get("ramet_restore_verified_age_seconds")


def test_drills_wait_for_real_work(world: World) -> None:
    service = world.create()
    fork_service(world.plane, world.project.id, service.id, ForkRequest(ForkStrategy.NOW))
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    assert look(world, service).drilled_at is None


def test_a_service_is_drilled_an_hour_after_its_birth_and_then_daily(world: World) -> None:
    service = world.create()
    submit_due_drill(ahead(world, timedelta(minutes=59)))
    world.worker.run_until_idle()
    assert look(world, service).last_verified_at is None
    submit_due_drill(ahead(world, timedelta(minutes=61)))
    world.worker.run_until_idle()
    first = look(world, service).last_verified_at
    assert first is not None
    submit_due_drill(ahead(world, timedelta(hours=23)))
    world.worker.run_until_idle()
    assert look(world, service).last_verified_at == first


def test_an_overdue_drill_is_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    service = world.create()
    with caplog.at_level(logging.WARNING):
        record_overdue_drills(ahead(world, 2 * DAY + timedelta(minutes=1)))
    assert "No restore has been verified since" in (restore_warning(look(world, service)) or "")
    assert service.id in caplog.text


@pytest.fixture
def old(world: World) -> Service:
    """A service that is READY for twenty days, and was verified now."""
    service = world.create()
    with world.store.write() as tx:
        update_service(tx, service.id, ready_at=datetime.now(UTC) - 20 * DAY)
    return drill(world, service)


def test_a_rewind_begins_the_time_in_which_a_restore_is_to_be_verified(world: World, old: Service) -> None:
    checkpoint(world, old, "before")
    assert rewind(world, old, "before").status == "SUCCEEDED"
    assert look(world, old).last_verified_at is None
    record_overdue_drills(ahead(world, 2 * DAY - timedelta(minutes=1)))
    assert restore_warning(look(world, old)) is None
    begun = datetime.now(UTC) - timedelta(minutes=1)
    record_overdue_drills(ahead(world, 2 * DAY))
    warning = restore_warning(look(world, old)) or ""
    assert begun < datetime.fromisoformat(warning.removeprefix("No restore has been verified since ")[:-1])


@pytest.mark.parametrize(("verb", "counts"), [("STOP", False), ("SLEEP", True)])
def test_only_time_in_which_a_service_was_paused_does_not_count(
    world: World, old: Service, verb: str, *, counts: bool
) -> None:
    services.stop_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    services.start_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    stopped = operation.c.procedure == ProcedureName.STOP
    with world.store.write() as tx:
        values = {"procedure": ProcedureName[verb], "finished_at": datetime.now(UTC) - 18 * DAY}
        tx.execute(operation.update().where(stopped).values(values))
        update_service(tx, old.id, last_verified_at=datetime.now(UTC) - 19 * DAY)
    record_overdue_drills(ahead(world, DAY - timedelta(minutes=1)))
    assert (restore_warning(look(world, old)) is not None) is counts
    record_overdue_drills(ahead(world, DAY))
    assert "No restore has been verified" in (restore_warning(look(world, old)) or "")


@pytest.mark.parametrize("resumed_by", ["RESIZE", "SET_WAL_LEVEL", "SET_SLEEP"])
def test_a_pause_ends_with_each_change_that_resumes_a_service(world: World, old: Service, resumed_by: str) -> None:
    services.stop_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    services.start_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    stopped, started = (operation.c.procedure == ProcedureName[name] for name in ("STOP", "START"))
    with world.store.write() as tx:
        tx.execute(operation.update().where(stopped).values(finished_at=datetime.now(UTC) - 18 * DAY))
        tx.execute(operation.update().where(started).values(procedure=ProcedureName[resumed_by]))
        update_service(tx, old.id, last_verified_at=datetime.now(UTC) - 19 * DAY)
    record_overdue_drills(ahead(world, DAY - timedelta(minutes=1)))
    assert restore_warning(look(world, old)) is None
    record_overdue_drills(ahead(world, DAY))
    assert "No restore has been verified" in (restore_warning(look(world, old)) or "")


def test_a_pause_that_had_begun_when_a_restore_was_verified_does_not_count(world: World, old: Service) -> None:
    services.stop_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    services.start_service(world.plane, world.project.id, old.id)
    world.worker.run_until_idle()
    with world.store.write() as tx:
        stopped = operation.c.procedure == ProcedureName.STOP
        tx.execute(operation.update().where(stopped).values(finished_at=datetime.now(UTC) - 10 * DAY))
        update_service(tx, old.id, last_verified_at=datetime.now(UTC) - 9 * DAY)
    record_overdue_drills(ahead(world, 2 * DAY - timedelta(minutes=1)))
    assert restore_warning(look(world, old)) is None
    record_overdue_drills(ahead(world, 2 * DAY))
    assert "No restore has been verified" in (restore_warning(look(world, old)) or "")


def test_archiving_that_falls_behind_is_reported_until_it_catches_up(world: World) -> None:
    service = world.create()
    world.backend.volumes[service.id].archive_delay = "Archiving is behind: 70 WAL segments wait."
    maintain_servers(world.plane, world.plane.clock)
    assert "70 WAL segments" in (restore_warning(look(world, service)) or "")
    world.backend.volumes[service.id].archive_delay = None
    maintain_servers(world.plane, world.plane.clock)
    assert restore_warning(look(world, service)) is None


def test_a_service_that_is_deleted_during_its_drill_leaves_nothing(world: World) -> None:
    service = world.create()
    submit_due_drill(world.plane, timedelta(0))
    services.delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert world.backend.volumes == {}


def test_a_drill_whose_walk_through_the_archive_spans_an_upgrade_proves_nothing(world: World) -> None:
    service = world.create()

    def upgraded_before_it(procedure: Procedure) -> Procedure:
        def walk(work: Work[Any]) -> Outcome:
            with world.store.write() as tx:
                update_service(tx, service.id, pg_major=service.pg_major + 1)
            return procedure.steps["walk"](work)

        return replace(procedure, steps={**procedure.steps, "walk": walk})

    submit_due_drill(world.plane, timedelta(0))
    Worker(world.store, laws.rewritten(world.procedures, "drill", upgraded_before_it)).run_until_idle()
    assert look(world, service).pg_major == service.pg_major + 1
    assert look(world, service).last_verified_at is None
