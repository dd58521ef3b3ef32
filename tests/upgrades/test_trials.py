"""Trials of upgrades over the memory backend: what they report, what they refuse, and what they leave."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.memory.backend import MemoryBackend
from ramet.control.duties.health import Health
from ramet.control.requests import CreateRequest
from ramet.control.services import create_service, list_services, stop_service
from ramet.control.sleep import submit_sleep
from ramet.errors import Error, Exhausted, Failed, Invalid, NotFound, Unavailable, WrongState
from ramet.model.service import Service
from ramet.model.status import OperationStatus
from ramet.model.upgrade import Refusal, Statement, UpgradeFacts
from ramet.upgrades.verbs import Upgrade, UpgradeRequest, get_upgrade, list_upgrades, upgrade_service
from tests.worlds import World, make_world

NEW = 19


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path, MemoryBackend())
    yield made
    made.store.close()


@pytest.fixture
def shop(world: World) -> Service:
    made = world.create()
    world.backend.commit(made.id, "one")
    world.backend.commit(made.id, "two")
    return made


def tried(world: World, service: Service, *, keeps: bool = False) -> Upgrade:
    accepted = upgrade_service(world.plane, world.project.id, service.id, UpgradeRequest(NEW, True, keeps))
    world.worker.run_until_idle()
    return get_upgrade(world.plane, world.project.id, service.id, accepted.service.id)


def test_a_trial_compares_and_leaves_nothing_but_its_report(world: World, shop: Service) -> None:
    world.backend.upgrades.statements[:] = [Statement("SELECT * FROM rows", 7)]
    found = tried(world, shop)
    assert (found.status, found.error) == (OperationStatus.SUCCEEDED, None)
    assert (found.report["rows"], found.report["row_differences"]) == (2, [])
    assert [(one["statement"], one["changed"]) for one in found.report["plans"]] == [("SELECT * FROM rows", False)]
    assert found.downtime_seconds is not None
    assert [one.id for one in list_services(world.plane, world.project.id)] == [shop.id]
    assert world.leftovers() == []
    assert world.backend.values(shop.id) == ["one", "two"]


def test_the_downtime_has_the_analyze_that_an_upgrade_waits_for(world: World, shop: Service) -> None:
    found = tried(world, shop)
    assert found.report["keeps_statistics"] is True
    report = {**found.report, "seconds": dict.fromkeys(found.report["seconds"], 1.0)}
    kept, lost = (replace(found, report=report | {"keeps_statistics": keeps}) for keeps in (True, False))
    assert kept.downtime_seconds is not None
    assert lost.downtime_seconds == kept.downtime_seconds + 1


def test_a_trial_that_is_kept_is_a_service_of_the_new_version(world: World, shop: Service) -> None:
    found = tried(world, shop, keeps=True)
    (kept,) = [one for one in list_services(world.plane, world.project.id) if one.id != shop.id]
    assert (kept.id, kept.name, kept.pg_major) == (found.trial.id, "shop-upgrade-19", NEW)
    assert world.backend.values(kept.id) == ["one", "two"]
    assert kept.origin is not None
    assert kept.origin.service_id == shop.id
    assert world.fork(kept).pg_major == NEW


def test_a_trial_that_is_kept_is_within_the_limits_of_forks_and_any_other_is_not(world: World, shop: Service) -> None:
    world.projects.change_limits(world.project.id, {"max_services": 1})
    assert tried(world, shop).status is OperationStatus.SUCCEEDED
    with pytest.raises(Exhausted, match="may have 1 services"):
        tried(world, shop, keeps=True)


def test_a_trial_that_is_kept_expires_as_any_fork_and_does_not_fall_asleep(world: World, shop: Service) -> None:
    world.projects.change_limits(world.project.id, {"fork_ttl_seconds": 3600, "fork_sleep_after_seconds": 900})
    kept = tried(world, shop, keeps=True).trial
    assert kept.life_span is not None
    assert kept.life_span.ttl_seconds == 3600
    assert kept.sleep_after_seconds is None


def test_rows_that_are_lost_are_in_the_report(world: World, shop: Service) -> None:
    world.backend.upgrades.loses_rows = True
    assert tried(world, shop).report["row_differences"] == [{"table": "tsdb.public.rows", "before": 2, "after": 1}]


def test_a_fault_of_pg_upgrade_is_in_the_report_and_the_service_serves(world: World, shop: Service) -> None:
    world.backend.upgrades.fault = "could not load library"
    found = tried(world, shop)
    assert found.status is OperationStatus.FAILED
    assert "could not load library" in (found.error or "")
    assert found.report["from_version"] == f"{shop.pg_major}.0"
    Health(world.plane).inspect()
    assert world.backend.values(shop.id) == ["one", "two"]
    assert world.leftovers() == []


def test_a_service_that_cannot_be_upgraded_is_refused_before_anything_is_made(world: World, shop: Service) -> None:
    world.backend.upgrades.refusals[:] = [
        Refusal("extension postgis", "PostgreSQL 19 does not have it", "Install it."),
        Refusal("prepared transaction x", "pg_upgrade cannot carry it over", "Roll it back."),
    ]
    with pytest.raises(Invalid, match="extension postgis: PostgreSQL 19 does not have it") as raised:
        upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW, True))
    assert "prepared transaction x" in raised.value.details
    assert list_upgrades(world.plane, world.project.id, shop.id) == []
    assert [one.id for one in list_services(world.plane, world.project.id)] == [shop.id]


@pytest.mark.parametrize("to_major", [15, 18, 20], ids=str)
def test_only_a_later_version_that_is_installed_will_do(world: World, shop: Service, to_major: int) -> None:
    with pytest.raises(Invalid, match=rf"to_version must be a later version than 18 .*: 19 \(got {to_major}\)"):
        upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(to_major, True))


def test_a_version_without_tls_does_not_move_the_endpoint(world: World, shop: Service) -> None:
    placement = replace(world.plane.placement, endpoint_host="db.example", plaintext=True)
    with pytest.raises(Invalid, match="could not stay at localhost"):
        upgrade_service(replace(world.plane, placement=placement), world.project.id, shop.id, UpgradeRequest(NEW, True))


def test_a_paused_service_is_refused(world: World, shop: Service) -> None:
    stop_service(world.plane, world.project.id, shop.id)
    world.worker.run_until_idle()
    with pytest.raises(WrongState, match="upgrade needs it to be READY"):
        upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW, True))


@pytest.mark.parametrize(("is_asleep", "error"), [(False, Unavailable), (True, WrongState)])
def test_a_service_that_falls_asleep_while_it_is_examined_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, is_asleep: bool, error: type[Error]
) -> None:
    shop = world.settle(create_service(world.plane, world.project.id, CreateRequest("shop", sleep_after_seconds=600)))
    examine = world.backend.upgrades.examine

    def long_lasting(server: Server, to_major: int) -> UpgradeFacts:
        facts = examine(server, to_major)
        assert submit_sleep(world.plane, shop.id)
        if is_asleep:
            world.worker.run_until_idle()
        return facts

    monkeypatch.setattr(world.backend.upgrades, "examine", long_lasting)
    with pytest.raises(error, match="asleep"):
        upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW))
    assert list_upgrades(world.plane, world.project.id, shop.id) == []


def test_an_idempotency_key_makes_one_trial(world: World, shop: Service) -> None:
    first, second = (
        upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(NEW, True), "the same key").service.id
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("fails", [False, True])
def test_an_idempotency_key_makes_one_trial_also_when_its_fork_is_gone(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def refuse(*_arguments: object) -> None:
        raise Failed("UPGRADE_FAILED", "It cannot be upgraded")

    if fails:
        monkeypatch.setattr(world.backend.upgrades, "upgrade", refuse)
    made = set()
    for _ in range(2):
        request = UpgradeRequest(NEW, is_trial=True)
        made.add(upgrade_service(world.plane, world.project.id, shop.id, request, "the same key").service.id)
        world.worker.run_until_idle()
    listed = list_upgrades(world.plane, world.project.id, shop.id)
    assert [one.trial.id for one in listed] == [*made]
    assert listed[0].status is (OperationStatus.FAILED if fails else OperationStatus.SUCCEEDED)


def test_upgrades_are_listed_newest_first(world: World, shop: Service) -> None:
    made = [tried(world, shop).trial.id for _ in range(2)]
    assert [one.trial.id for one in list_upgrades(world.plane, world.project.id, shop.id)] == made[::-1]
    with pytest.raises(NotFound, match="has no upgrade"):
        get_upgrade(world.plane, world.project.id, shop.id, world.fork(shop).id)
