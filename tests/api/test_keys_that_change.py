"""Keys that end or change while a request of theirs is examined: they count as they are when it is accepted."""

from collections.abc import Callable
from typing import Any

import pytest

from ramet.backends.memory.admission import MemoryAdmission
from ramet.model.capacity import Capacity
from ramet.model.rights import Role
from ramet.model.timestamps import rfc3339
from tests.api.world import JsonObject, World

_NOW = {"fork_strategy": "NOW"}
_SOURCE = {"name": "shop", "source_url": "postgresql://app@db.example/shop", "source_password": "source"}


def _revoke(holder: World) -> None:
    holder.projects.revoke_key(holder.tenant.key.public_key, holder.clock())


def _rotate(holder: World) -> None:
    holder.projects.rotate_key(holder.tenant.project.id, holder.tenant.key.public_key, 0, holder.clock())


def _change(holder: World, **limits: Any) -> None:
    holder.projects.change_key(holder.tenant.project.id, holder.tenant.key.public_key, holder.clock(), **limits)


def _before_it_is_accepted(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Let something happen after a request was checked, and before the transaction that accepts it."""
    capacity = MemoryAdmission.capacity

    def asked(self: MemoryAdmission) -> Capacity:
        happens()
        return capacity(self)

    monkeypatch.setattr(MemoryAdmission, "capacity", asked)


@pytest.mark.parametrize("end", [_revoke, _rotate])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {"name": "new"}),
        ("{service_id}/forkService", _NOW),
        ("{service_id}/forkServices", {**_NOW, "count": 2}),
        ("{service_id}/restores", {"target_time": "{now}"}),
        ("{service_id}/upgrades", {"to_version": 19, "trial": True}),
        ("../imports", _SOURCE),
    ],
)
def test_nothing_is_accepted_for_a_key_that_ends_before(
    world: World, monkeypatch: pytest.MonkeyPatch, end: Callable[[World], None], path: str, body: JsonObject
) -> None:
    shop, holder = world.ready(), world.with_key(Role.ADMIN)
    _before_it_is_accepted(monkeypatch, lambda: end(holder))
    world.backend.commit(shop["service_id"], "one")
    now = rfc3339(world.backend.clock())
    world.backend.commit(shop["service_id"], "two")
    body = {name: one.format(**shop, now=now) if isinstance(one, str) else one for name, one in body.items()}
    answer = holder.post(f"{world.services_path}/{path.format(**shop)}", body)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    world.work()
    assert [one["service_id"] for one in world.listed()] == [shop["service_id"]]
    assert world.backend.values(shop["service_id"]) == ["one", "two"]


def test_the_limits_of_a_forker_are_those_of_when_its_fork_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, other = world.ready(), world.ready(name="other")
    forker = world.forker(shop, other)
    forker.fork(shop)
    for change, code in (({"max_forks": 1}, "KEY_LIMIT"), ({"parents": (other["service_id"],)}, "SERVICE_NOT_FOUND")):
        with monkeypatch.context() as patch:
            _before_it_is_accepted(patch, lambda change=change: _change(forker, **change))  # type: ignore[misc]
            refused = forker.post(forker.path(shop["service_id"], "forkService"), _NOW)
        assert refused.json()["code"] == code
    _change(forker, max_forks=2)
    forker.fork(other)
