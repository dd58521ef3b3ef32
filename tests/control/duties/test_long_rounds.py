"""A round of a duty takes seconds for some services: the others are looked after as they are when it reaches them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.backends.interface.values import Observation, Server, Sessions
from ramet.control import archive, services
from ramet.control.duties.archive import OffHostArchive, discard_old_archives
from ramet.control.duties.drills import record_overdue_drills
from ramet.control.duties.health import Health
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.sleep import submit_sleep, wake
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.life_span import LifeTerms
from ramet.model.service import Service
from ramet.store import services as rows
from tests.worlds import World, fork_service, look

WINDOW = timedelta(days=30)


def create(world: World, **request: Any) -> Service:
    return world.settle(services.create_service(world.plane, world.project.id, CreateRequest("shop", **request)))


def before_first_call(monkeypatch: pytest.MonkeyPatch, part: object, name: str, happens: Callable[[], object]) -> None:
    """Let something happen before a backend is asked for the first time in a round."""
    usual, left = getattr(part, name), [happens]

    def wrapped(*args: Any, **options: Any) -> Any:
        if left:
            left.pop()()
        return usual(*args, **options)

    monkeypatch.setattr(part, name, wrapped)


def archived_pair(world: World) -> list[Service]:
    """Return two services with old archives, in the order in which these are cleaned up."""
    world.backend.archive.location = "s3://bucket"
    pair = [create(world, environment=Environment.PROD) for _ in range(2)]
    OffHostArchive(world.plane).maintain()
    return pair


def test_an_archive_that_is_switched_on_again_before_it_is_reached_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = archived_pair(world)
    for each in (first, later):
        archive.set_archive(world.plane, world.project.id, each.id, False)
    before_first_call(
        monkeypatch,
        world.backend.archive,
        "remove",
        lambda: archive.set_archive(world.plane, world.project.id, later.id, True),
    )
    discard_old_archives(world.plane, WINDOW, lambda: datetime.now(UTC) + WINDOW + timedelta(days=1))
    assert list(world.backend.archive.bases) == [later.id]


def test_an_archive_that_a_fork_has_begun_to_copy_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = archived_pair(world)
    now, bases = datetime.now(UTC), world.backend.archive.bases
    ages = [timedelta(days=days) for days in (40, 35, 3)]
    for each in (first, later):
        bases[each.id] = [now - age for age in ages]
    before_first_call(
        monkeypatch,
        world.backend.archive,
        "discard",
        lambda: fork_service(world.plane, world.project.id, later.id, ForkRequest(ForkStrategy.NOW)),
    )
    discard_old_archives(world.plane, WINDOW, lambda: now)
    assert [len(bases[each.id]) for each in (first, later)] == [2, 3]


def test_a_service_that_is_woken_before_it_is_looked_at_does_not_expire(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, life=LifeTerms(idle_ttl_seconds=600))
    later = create(world, life=LifeTerms(idle_ttl_seconds=600), sleep_after_seconds=600)
    assert submit_sleep(world.plane, later.id)
    world.worker.run_until_idle()
    begun = datetime.now(UTC)
    LifeSpans(world.plane, lambda: begun).tend()
    LifeSpans(world.plane, lambda: begun + timedelta(seconds=595)).tend()
    span = look(world, later).life_span
    assert span is not None
    assert span.announced_at is not None

    def woken() -> None:
        assert wake(world.plane, later.id)
        world.worker.run_until_idle()
        world.backend.volume(later.id).sessions = Sessions(1, "a client")

    before_first_call(monkeypatch, world.backend.poolers, "sessions", woken)
    LifeSpans(world.plane, lambda: begun + timedelta(seconds=1300)).tend()
    world.worker.run_until_idle()
    assert look(world, later).deleted_at is None


def test_an_operation_that_begins_during_a_round_keeps_maintenance_from_its_server(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.control.duties.maintenance._FRESH_SECONDS", -1.0)
    known, maintained = [world.create() for _ in range(3)], list[str]()
    usual = world.backend.servers.maintain

    def maintain(server: Server, *rest: Any) -> Any:
        maintained.append(server.service_id)
        return usual(server, *rest)

    monkeypatch.setattr(world.backend.servers, "maintain", maintain)
    before_first_call(
        monkeypatch,
        world.backend.servers,
        "maintain",
        lambda: services.stop_service(world.plane, world.project.id, known[1].id),
    )
    maintain_servers(world.plane, world.plane.clock)
    assert maintained == [known[0].id, known[2].id]


def test_a_service_that_is_half_promoted_during_a_round_is_not_restarted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()

    def half_promoted(_server: Server) -> Observation:
        with world.store.write() as tx:
            rows.update_service(tx, service.id, half_promoted=True)
        return Observation(False, "Its server is not running.")

    monkeypatch.setattr(world.backend.servers, "inspect", half_promoted)
    Health(world.plane).inspect()
    assert look(world, service).activity is None


def test_damage_that_a_drill_finds_during_a_round_is_not_replaced_by_less(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.create()

    def drilled() -> None:
        with world.store.write() as tx:
            rows.update_service(tx, service.id, drilled_at=datetime.now(UTC), drill_failure="There is damage.")

    before_first_call(monkeypatch, world.backend.copies, "are_needed", drilled)
    record_overdue_drills(replace(world.plane, clock=lambda: datetime.now(UTC) + timedelta(days=9)))
    assert look(world, service).drill_failure == "There is damage."
