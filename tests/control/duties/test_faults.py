"""A fault of one service, which a tenant may have caused, keeps no duty from the services of others."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from ramet.control import services as verbs
from ramet.control.duties.faults import Faults
from ramet.control.duties.health import Health
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.duties.logins import EndedLogins
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.own_space import OwnSpace
from ramet.control.duties.refresh import Refresh
from ramet.control.duties.sampling import Sampling
from ramet.control.duties.sleep import FallingAsleep
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.requests import CreateRequest
from ramet.control.restore import take_snapshot
from ramet.model.life_span import LifeTerms
from ramet.model.login import Login
from ramet.store import logins
from tests.worlds import World


def _sample(world: World) -> None:
    """Sample three services: a round measures at least one, and ends after a fifth of a second."""
    sampling = Sampling(world.plane)
    for _ in range(3):
        sampling.sample()


def _measure_own_space(world: World) -> None:
    _sample(world)  # only what has samples is measured
    OwnSpace(world.plane, clock=lambda: 0.0).measure()


DUTIES: dict[str, tuple[str, str, Callable[[World], object]]] = {
    "health": ("servers", "inspect", lambda world: Health(world.plane).inspect()),
    "maintenance": ("servers", "maintain", lambda world: maintain_servers(world.plane, world.plane.clock)),
    "upgrades": ("servers", "refresh", lambda world: Refresh(world.plane).apply()),
    "logins": ("logins", "drop", lambda world: EndedLogins(world.plane).drop()),
    "life spans": ("poolers", "sessions", lambda world: LifeSpans(world.plane, world.plane.clock).tend()),
    "sleep": ("poolers", "sessions", lambda world: FallingAsleep(world.plane, world.plane.clock).tend()),
    "storage guard": ("host", "storage_pressure", lambda world: StorageGuard(world.plane).check()),
    "snapshots": ("restore", "written_since", lambda world: ScheduledSnapshots(world.plane).take_due()),
    "metrics": ("host", "measure", _sample),
    "own space": ("host", "disk_usage", _measure_own_space),
}


def new(world: World) -> str:
    """Return a service with all that the duties look after."""
    request = CreateRequest("shop", sleep_after_seconds=600, life=LifeTerms(idle_ttl_seconds=600))
    service = world.settle(verbs.create_service(world.plane, world.project.id, request))
    take_snapshot(world.plane, world.project.id, service.id, "monday")
    world.worker.run_until_idle()
    begun, ended = service.created_at - timedelta(hours=1), service.created_at
    with world.store.write() as tx:
        login = Login(f"ramet_login_{service.id}", service.id, world.key.public_key, False, begun, ended)
        logins.insert_login(tx, login)
    return service.id


@pytest.mark.parametrize("name", DUTIES)
def test_a_fault_of_one_service_keeps_no_duty_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    ids = {new(world) for _ in range(3)}
    room, method, perform = DUTIES[name]
    asked: list[str] = []

    def fails(one: object, *_: object, **__: object) -> object:
        service_id = one if isinstance(one, str) else getattr(one, "service_id", None)
        if service_id is None:
            return None
        asked.append(service_id)
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(getattr(world.backend, room), method, fails)
    perform(world)
    assert ids == set(asked)
    assert all(f"duty {name} failed for {one}" in caplog.text for one in ids)


def test_a_fault_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    known = Faults("maintenance")
    for now in (0.0, 1.0, 59.0, 60.0):
        monkeypatch.setattr("ramet.control.duties.faults.time.monotonic", partial(float, now))
        for subject in ("one", "two"):
            with known.contained(subject):
                raise KeyError(subject)
    assert [record.getMessage() for record in caplog.records] == 2 * [
        "duty maintenance failed for one: 'one'",
        "duty maintenance failed for two: 'two'",
    ]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
