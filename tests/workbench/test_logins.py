"""The logins that the console keeps: one for each use, few of a key, and none for what its role may not do."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from ramet.control.services import get_service
from ramet.errors import Forbidden
from ramet.model.rights import Role
from ramet.model.service import Service
from ramet.workbench.logins import KeptLogins
from ramet.workbench.sessions import Limits, Place, Workbench
from tests.api.world import World, open_world


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path)


def _service(world: World, name: str) -> Service:
    made = world.ready(name=name)
    return get_service(world.plane, world.tenant.project.id, made["service_id"])


def _roles(world: World, service: Service) -> dict[str, bool]:
    return dict(world.backend.volumes[service.id].logins)


def test_a_login_is_made_for_each_use_and_used_again(world: World) -> None:
    plane, kept, shop = world.plane.on_behalf_of(world.tenant.key), KeptLogins(), _service(world, "shop")
    reads = kept.of_caller(plane, shop, writes=False)
    assert kept.of_caller(plane, shop, writes=False) is reads
    writes = kept.of_caller(plane, shop, writes=True)
    assert _roles(world, shop) == {reads.login.role: True, writes.login.role: False}
    kept.forget(plane, shop, writes=False)
    assert kept.of_caller(plane, shop, writes=False) is not reads


def test_those_that_were_not_used_for_longest_are_revoked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.workbench.logins._MOST_OF_KEY", 2)
    plane, kept = world.plane.on_behalf_of(world.tenant.key), KeptLogins()
    first, second, third = (_service(world, name) for name in ("first", "second", "third"))
    for service in (first, second, first, third):
        kept.of_caller(plane, service, writes=False)
    assert [len(_roles(world, service)) for service in (first, second, third)] == [1, 0, 1]


def test_that_of_an_open_session_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.workbench.logins._MOST_OF_KEY", 2)
    plane = world.plane.on_behalf_of(world.tenant.key)
    workbench = Workbench(connect=lambda **_: nullcontext())  # type: ignore[arg-type]
    first, *others = (_service(world, name) for name in ("first", "second", "third", "fourth"))
    with workbench.session(Place(plane, first, "tsdb"), Limits(1)):
        for service in others[:2]:
            workbench.logins.of_caller(plane, service, writes=False)
        assert [len(_roles(world, service)) for service in (first, *others)] == [1, 1, 1, 0]
    workbench.logins.of_caller(plane, others[2], writes=False)
    assert [len(_roles(world, service)) for service in (first, *others)] == [0, 0, 1, 1]


def test_a_login_whose_end_is_near_is_not_used_again(world: World) -> None:
    plane, kept, shop = world.plane.on_behalf_of(world.tenant.key), KeptLogins(), _service(world, "shop")
    made = kept.of_caller(plane, shop, writes=False)
    world.advance(made.login.expires_at - world.clock())
    assert kept.of_caller(plane, shop, writes=False) is not made


def test_a_login_that_ends_with_its_key_is_used_to_its_end(world: World) -> None:
    shop, kept, end = _service(world, "shop"), KeptLogins(), world.clock() + timedelta(seconds=200)
    holder = world.with_key(Role.DEVELOPER, expires_at=end)
    plane = world.plane.on_behalf_of(holder.tenant.key)
    made = kept.of_caller(plane, shop, writes=False)
    assert made.login.expires_at == end
    world.advance(timedelta(seconds=100))
    assert kept.of_caller(plane, shop, writes=False) is made
    later = world.projects.change_key(world.tenant.project.id, made.login.public_key, world.clock(), expires_at=None)
    assert kept.of_caller(world.plane.on_behalf_of(later), shop, writes=False) is not made


def test_a_key_that_became_a_viewer_does_not_get_the_login_it_had(world: World) -> None:
    shop, kept, key = _service(world, "shop"), KeptLogins(), world.tenant.key
    kept.of_caller(world.plane.on_behalf_of(key), shop, writes=True)
    with pytest.raises(Forbidden, match="may only read"):
        kept.of_caller(world.plane.on_behalf_of(replace(key, role=Role.VIEWER)), shop, writes=True)
