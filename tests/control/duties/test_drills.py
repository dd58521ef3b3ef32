"""Restore drills, and the warnings that clients see."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ramet.api.routes.services import service_shape
from ramet.control import services
from ramet.control.duties.drills import record_overdue_drills, submit_due_drill
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.forks import fork_service
from ramet.control.plane import Plane
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.restore_window import Gap
from ramet.model.service import Service, restore_warning
from tests.worlds import World

DAY = timedelta(days=1)


def ahead(world: World, duration: timedelta) -> Plane:
    return replace(world.plane, clock=lambda: datetime.now(UTC) + duration)


def drill(world: World, service: Service) -> Service:
    """Let a drill that is due run to its end."""
    submit_due_drill(world.plane, timedelta(0))
    world.worker.run_until_idle()
    return look(world, service)


def look(world: World, service: Service) -> Service:
    return services.get_service(world.plane, world.project.id, service.id)


def test_a_drill_verifies_the_newest_restorable_time_and_leaves_nothing(world: World) -> None:
    service = world.create()
    before = datetime.now(UTC)
    proven = drill(world, service)
    assert proven.last_verified_at is not None
    assert before < proven.last_verified_at < datetime.now(UTC)
    assert world.leftovers() == []
    assert service_shape(proven).metadata.last_proven_restore == proven.last_verified_at


def test_a_drill_is_never_listed_and_changes_no_status(world: World) -> None:
    service = world.create()
    submit_due_drill(world.plane, timedelta(0))
    (listed,) = services.list_services(world.plane, world.project.id)
    assert (listed.id, listed.activity) == (service.id, None)


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
