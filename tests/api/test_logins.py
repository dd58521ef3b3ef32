"""Logins over HTTP: with the rights of the key's role, for a while, and gone with the key."""

from datetime import timedelta
from typing import Any

import pytest

from ramet.backends.memory.logins import MemoryLogins
from ramet.control.duties.logins import EndedLogins
from ramet.model.login import MOST_OF_KEY
from ramet.model.rights import Role
from ramet.model.timestamps import rfc3339
from ramet.store import logins
from tests.api.world import JsonObject, World


def _log_in(holder: World, service: JsonObject, **body: object) -> JsonObject:
    answer = holder.post(holder.path(service["service_id"], "logins"), body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def _there(world: World, service: JsonObject) -> dict[str, bool]:
    return world.backend.volumes[service["service_id"]].logins


def test_the_login_of_a_viewer_is_read_only_and_that_of_others_is_not(world: World) -> None:
    shop = world.ready()
    viewer, developer = world.with_key(Role.VIEWER), world.with_key(Role.DEVELOPER)
    read, write = _log_in(viewer, shop), _log_in(developer, shop)
    assert _there(world, shop) == {read["role"]: True, write["role"]: False}
    assert read["password"] != write["password"]
    listed = [viewer, developer, world]
    roles = [[one["role"] for one in each.get(each.path(shop["service_id"], "logins")).json()] for each in listed]
    assert roles == [[read["role"]], [write["role"]], [read["role"], write["role"]]]


def test_a_login_ends_with_its_time_or_with_its_key(world: World) -> None:
    shop, duty = world.ready(), EndedLogins(world.plane)
    first, second = world.with_key(Role.VIEWER), world.with_key(Role.VIEWER)
    short, long = _log_in(first, shop, ttl_seconds=60), _log_in(second, shop)
    duty.drop()
    assert set(_there(world, shop)) == {short["role"], long["role"]}
    world.advance(timedelta(seconds=61))
    duty.drop()
    assert set(_there(world, shop)) == {long["role"]}
    world.projects.revoke_key(second.tenant.key.public_key, world.clock())
    duty.drop()
    assert _there(world, shop) == {}
    assert world.get(world.path(shop["service_id"], "logins")).json() == []


@pytest.mark.parametrize("how", ["the key is revoked", "the login is ended"])
def test_a_login_that_ends_while_its_role_is_made_is_not_handed_out(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    shop, duty = world.ready(), EndedLogins(world.plane)
    viewer, create = world.with_key(Role.VIEWER), MemoryLogins.create
    path = world.path(shop["service_id"], "logins")

    def interrupted(self: MemoryLogins, *given: Any, **more: Any) -> None:
        if how == "the key is revoked":
            world.projects.revoke_key(viewer.tenant.key.public_key, world.clock())
        else:
            assert world.delete(f"{path}/{world.get(path).json()[0]['role']}").status_code == 204
        duty.drop()
        create(self, *given, **more)

    monkeypatch.setattr(MemoryLogins, "create", interrupted)
    assert viewer.post(path).status_code == 401
    duty.drop()
    assert _there(world, shop) == {}
    assert world.get(path).json() == []


def test_a_login_lasts_no_longer_than_its_key(world: World) -> None:
    shop = world.ready()
    ends_at = world.clock() + timedelta(minutes=10)
    assert _log_in(world.with_key(Role.VIEWER, expires_at=ends_at), shop)["expires_at"] == rfc3339(ends_at)


def test_a_login_of_a_stopped_service_is_dropped_when_it_serves_again(world: World) -> None:
    shop, duty = world.ready(), EndedLogins(world.plane)
    login = _log_in(world, shop, ttl_seconds=60)
    world.post(world.path(shop["service_id"], "stop"))
    world.work()
    world.advance(timedelta(minutes=2))
    duty.drop()
    assert set(_there(world, shop)) == {login["role"]}
    assert world.post(world.path(shop["service_id"], "logins")).json()["code"] == "INVALID_STATE"
    world.post(world.path(shop["service_id"], "start"))
    world.work()
    duty.drop()
    assert _there(world, shop) == {}


def test_a_forker_logs_in_to_its_own_forks_alone(world: World) -> None:
    shop = world.ready()
    forker = world.forker(shop)
    fork = forker.fork(shop)
    world.work()
    assert _log_in(forker, fork)["read_only"] is False
    assert _log_in(forker, fork, read_only=True)["read_only"] is True
    assert forker.post(forker.path(shop["service_id"], "logins")).status_code == 404


def test_a_key_has_so_many_logins_in_each_fork(world: World) -> None:
    """The jobs of all repositories may share one key; see docs/ci.md."""
    shop = world.ready()
    forker, other = world.forker(shop), world.with_key(Role.DEVELOPER)
    first, second = forker.fork(shop, name="first"), forker.fork(shop, name="second")
    world.work()
    for _ in range(MOST_OF_KEY):
        _log_in(forker, first)
    refused = forker.post(forker.path(first["service_id"], "logins"))
    assert refused.json()["code"] == "TOO_MANY_LOGINS"
    assert first["service_id"] in refused.json()["message"]
    _log_in(forker, second)
    _log_in(other, first)


def test_a_login_in_a_service_that_is_deleted_is_forgotten(world: World) -> None:
    shop, duty = world.ready(), EndedLogins(world.plane)
    _log_in(world, shop)
    world.delete(world.path(shop["service_id"]))
    world.work()
    duty.drop()
    with world.store.read() as tx:
        assert logins.list_logins(tx) == []


def test_a_login_that_has_ended_counts_no_more_although_its_role_is_there(world: World) -> None:
    shop = world.ready()
    for _ in range(MOST_OF_KEY):
        _log_in(world, shop, ttl_seconds=60)
    assert world.post(world.path(shop["service_id"], "logins")).json()["code"] == "TOO_MANY_LOGINS"
    world.advance(timedelta(seconds=60))
    assert len(_there(world, shop)) == MOST_OF_KEY
    _log_in(world, shop)


@pytest.mark.parametrize("seconds", [0, 59, 12 * 3600 + 1])
def test_a_login_is_short(world: World, seconds: int) -> None:
    shop = world.ready()
    answer = world.post(world.path(shop["service_id"], "logins"), {"ttl_seconds": seconds})
    assert answer.json()["code"] == "INVALID_TTL_SECONDS"


def test_a_login_is_revoked_by_its_key_or_by_an_admin_and_by_nobody_else(world: World) -> None:
    shop, duty = world.ready(), EndedLogins(world.plane)
    viewer, developer = world.with_key(Role.VIEWER), world.with_key(Role.DEVELOPER)
    first, second, third = _log_in(viewer, shop), _log_in(viewer, shop), _log_in(viewer, shop)
    path = world.path(shop["service_id"], "logins")
    refused = developer.delete(f"{path}/{first['role']}")
    assert (refused.status_code, refused.json()["code"]) == (404, "LOGIN_NOT_FOUND")
    assert viewer.delete(f"{path}/{first['role']}").status_code == 204
    assert viewer.delete(f"{path}/{first['role']}").status_code == 404
    assert world.delete(f"{path}/{second['role']}").status_code == 204
    assert set(_there(world, shop)) == {third["role"]}
    world.post(world.path(shop["service_id"], "stop"))
    world.work()
    assert viewer.delete(f"{path}/{third['role']}").status_code == 204
    assert viewer.get(path).json() == []
    world.post(world.path(shop["service_id"], "start"))
    world.work()
    duty.drop()
    assert _there(world, shop) == {}
