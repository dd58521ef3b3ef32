"""Logins of a service whose data is replaced: they end where their roles are, in the state before."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.memory.logins import MemoryLogins
from ramet.control.duties.logins import EndedLogins
from ramet.control.logins import create_login, list_logins
from ramet.control.services import get_service, start_service
from ramet.errors import Failed, Unauthorized, Unavailable, Unseen
from ramet.model.login import MOST_OF_KEY, Login
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from ramet.operations.procedure import Procedure, Wait
from ramet.operations.worker import Worker
from ramet.restores.verbs import RestoreRequest, get_restore, restore_service
from ramet.store import logins
from ramet.upgrades.verbs import UpgradeRequest, get_upgrade, upgrade_service
from tests import procedure_laws as laws
from tests.worlds import Hurried, World


@pytest.fixture(name="shop")
def _shop(world: World) -> Service:
    return world.create()


def _log_in(world: World, service: Service) -> Login:
    plane = replace(world.plane, caller=world.key)
    return create_login(plane, world.project.id, service.id, 3600).login


def _restored(world: World, service: Service, *, keeps: bool = True) -> str:
    """Restore a service; return the id of the one that has the state before, if there is one."""
    request = RestoreRequest(target_time=rfc3339(world.backend.clock()), keeps=keeps)
    begun = restore_service(world.plane, world.project.id, service.id, request)
    world.worker.run_until_idle()
    return get_restore(world.plane, world.project.id, service.id, begun.id).previous_service_id or ""


def _upgraded(world: World, service: Service) -> str:
    begun = upgrade_service(world.plane, world.project.id, service.id, UpgradeRequest(19))
    world.worker.run_until_idle()
    return get_upgrade(world.plane, world.project.id, service.id, begun.service.id).previous_service_id or ""


def _revoke(world: World) -> None:
    world.projects.revoke_key(world.key.public_key, world.plane.clock())
    EndedLogins(world.plane).drop()


@pytest.mark.parametrize(
    "fault", [Unavailable("ROLE_LOCKED", "A transaction keeps the role locked"), RuntimeError("tuple is locked")]
)
def test_a_login_whose_role_cannot_be_made_is_none_of_its_key(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLogins, "create", refuse)
        for _ in range(MOST_OF_KEY):
            with pytest.raises(type(fault), match="locked"):
                _log_in(world, shop)
    assert list_logins(world.plane, world.project.id, shop.id) == []
    _log_in(world, shop)


@pytest.mark.parametrize("replaced", [_restored, _upgraded])
def test_a_login_ends_with_its_key_also_in_the_state_before(world: World, shop: Service, replaced: Any) -> None:
    made = _log_in(world, shop)
    previous_id = replaced(world, shop)
    assert list_logins(world.plane, world.project.id, shop.id) == []
    assert [one.role for one in list_logins(world.plane, world.project.id, previous_id)] == [made.role]
    start_service(world.plane, world.project.id, previous_id)
    world.worker.run_until_idle()
    assert set(world.backend.volumes[previous_id].logins) == {made.role}
    _revoke(world)
    assert world.backend.volumes[previous_id].logins == {}
    with world.store.read() as tx:
        assert logins.list_logins(tx) == []


@pytest.mark.parametrize("is_possible", [True, False])
def test_an_upgraded_service_has_no_logins_of_before(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_possible: bool
) -> None:
    made = _log_in(world, shop)

    def complete(server: Server, _from_major: int) -> list[str]:
        world.backend.volume(server.service_id).logins[made.role] = False  # as the release before did
        return []

    def refuses(*_: object) -> None:
        raise Unavailable("ROLE_IN_USE", "The role was not dropped yet")

    monkeypatch.setattr(world.backend.upgrades, "complete", complete)
    if not is_possible:
        monkeypatch.setattr(world.backend.logins, "drop", refuses)
    previous_id = _upgraded(world, shop)
    assert set(world.backend.volumes[shop.id].logins) == (set() if is_possible else {made.role})
    assert ("stay in its data: The role was not dropped yet" in caplog.text) is not is_possible
    assert [one.role for one in list_logins(world.plane, world.project.id, previous_id)] == [made.role]


def test_roles_of_logins_are_dropped_from_an_upgraded_service_that_could_not_be_asked_at_first(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, drop = _log_in(world, shop), MemoryLogins.drop
    faults = [Unseen("CANNOT_LOOK", "The server cannot be checked now: Too many open files")]

    def complete(server: Server, _from_major: int) -> list[str]:
        world.backend.volume(server.service_id).logins[made.role] = False  # as pg_upgrade carries it over
        return []

    def unseen_once(self: MemoryLogins, server: Server, roles: Sequence[str]) -> None:
        if faults:
            raise faults.pop()
        drop(self, server, roles)

    monkeypatch.setattr(world.backend.upgrades, "complete", complete)
    monkeypatch.setattr(MemoryLogins, "drop", unseen_once)
    upgrade_service(world.plane, world.project.id, shop.id, UpgradeRequest(19))
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=5)
    assert (faults, world.backend.volumes[shop.id].logins) == ([], {})
    assert status_of(get_service(world.plane, world.project.id, shop.id)) is Status.READY


def test_logins_are_forgotten_with_a_state_before_that_is_not_kept(world: World, shop: Service) -> None:
    _log_in(world, shop)
    _restored(world, shop, keeps=False)
    assert list_logins(world.plane, world.project.id, shop.id) == []
    EndedLogins(world.plane).drop()
    with world.store.read() as tx:
        assert logins.list_logins(tx) == []


@pytest.mark.parametrize("replaced", [_restored, _upgraded])
def test_logins_are_in_the_state_before_also_when_the_service_could_not_be_opened(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, replaced: Any
) -> None:
    made = _log_in(world, shop)

    def fails(*_: object) -> None:
        raise Failed("SERVER_DOWN", "The server did not start")

    monkeypatch.setattr(world.backend.replacements, "open", fails)
    monkeypatch.setattr(world.backend.servers, "open", fails)
    previous_id = replaced(world, shop)
    assert [one.role for one in list_logins(world.plane, world.project.id, previous_id)] == [made.role]


def test_a_login_whose_role_is_made_while_the_data_is_replaced_is_not_handed_out(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, before = MemoryLogins.create, []

    def slowly(self: MemoryLogins, *given: Any, **more: Any) -> None:
        create(self, *given, **more)
        before.append(_restored(world, shop))
        create(self, *given, **more)

    monkeypatch.setattr(MemoryLogins, "create", slowly)
    with pytest.raises(Unauthorized):
        _log_in(world, shop)
    assert world.backend.volumes[shop.id].logins == {}
    start_service(world.plane, world.project.id, before[0])
    world.worker.run_until_idle()
    EndedLogins(world.plane).drop()
    assert world.backend.volumes[before[0]].logins == {}
    with world.store.read() as tx:
        assert logins.list_logins(tx) == []


@pytest.mark.parametrize("keeps", [True, False])
def test_a_login_whose_role_is_made_in_the_restored_data_ends(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    create = MemoryLogins.create

    def waiting(procedure: Procedure) -> Procedure:
        return replace(procedure, steps={**procedure.steps, "open": lambda _work: Wait(5.0)})

    def slowly(self: MemoryLogins, *given: Any, **more: Any) -> None:
        request = RestoreRequest(target_time=rfc3339(world.backend.clock()), keeps=keeps)
        restore_service(world.plane, world.project.id, shop.id, request)
        Worker(world.store, laws.rewritten(world.procedures, "restore", waiting)).run_until_idle()
        create(self, *given, **more)

    monkeypatch.setattr(MemoryLogins, "create", slowly)
    with suppress(Unauthorized):
        _log_in(world, shop)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=10.0)
    assert status_of(get_service(world.plane, world.project.id, shop.id)) is Status.READY
    EndedLogins(world.plane).drop()
    assert world.backend.volumes[shop.id].logins == {}


@pytest.mark.parametrize("keeps", [True, False])
def test_logins_stay_with_a_service_whose_data_returns(world: World, shop: Service, keeps: bool) -> None:
    made = _log_in(world, shop)
    request = RestoreRequest(target_time=rfc3339(world.backend.clock()), keeps=keeps)
    restore_service(world.plane, world.project.id, shop.id, request)
    failing = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, "take_over", after=True))
    Worker(world.store, failing).run_until_idle()
    assert [one.role for one in list_logins(world.plane, world.project.id, shop.id)] == [made.role]
    assert set(world.backend.volumes[shop.id].logins) == {made.role}
