"""Poolers over HTTP."""

from collections.abc import Iterator

import pytest

from ramet.api.routes import poolers
from ramet.errors import Failed
from tests.api.world import World


@pytest.fixture
def working(world: World) -> Iterator[World]:
    """A world whose worker works by itself."""
    world.worker.start()
    yield world
    world.worker.stop()


def ready(world: World) -> str:
    service_id: str = world.ready()["service_id"]
    return service_id


def test_a_pooler_is_enabled_when_the_answer_says_so(world: World, working: World) -> None:
    service_id = ready(world)
    answer = world.post(world.path(service_id, "enablePooler"))
    assert answer.status_code == 200
    assert isinstance(answer.json()["message"], str)
    assert world.backend.poolers.serves(service_id)


def test_a_service_contains_the_address_of_its_pooler(world: World, working: World) -> None:
    service_id = ready(world)
    assert "connection_pooler" not in world.get(world.path(service_id)).json()
    world.post(world.path(service_id, "enablePooler"))
    service = world.get(world.path(service_id)).json()
    endpoint = service["connection_pooler"]["endpoint"]
    assert endpoint["host"] == service["endpoint"]["host"]
    assert isinstance(endpoint["port"], int)
    assert endpoint["port"] != service["endpoint"]["port"]
    assert world.listed()[0]["connection_pooler"] == service["connection_pooler"]


def test_a_service_without_the_database_that_poolers_serve_is_refused(world: World, working: World) -> None:
    service_id = ready(world)
    world.backend.volumes[service_id].has_database = False
    answer = world.post(world.path(service_id, "enablePooler"))
    assert (answer.status_code, answer.json()["code"]) == (400, "DATABASE_MISSING")
    assert "connection_pooler" not in world.get(world.path(service_id)).json()


def test_a_disabled_pooler_is_no_more(world: World, working: World) -> None:
    service_id = ready(world)
    world.post(world.path(service_id, "enablePooler"))
    assert world.post(world.path(service_id, "disablePooler")).status_code == 200
    assert "connection_pooler" not in world.get(world.path(service_id)).json()
    assert not world.backend.poolers.serves(service_id)


def test_both_may_be_asked_for_twice(world: World, working: World) -> None:
    service_id = ready(world)
    for verb in ("disablePooler", "enablePooler", "enablePooler", "disablePooler"):
        assert world.post(world.path(service_id, verb)).status_code == 200


@pytest.mark.parametrize(("verb", "other"), [("enablePooler", "is enabled"), ("disablePooler", "is disabled")])
def test_no_answer_says_that_it_is_done_before_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch, verb: str, other: str
) -> None:
    monkeypatch.setattr(poolers, "WAIT_SECONDS", 0.0)
    service_id = ready(world)
    if verb == "disablePooler":
        world.post(world.path(service_id, "enablePooler"))
        world.work()
    for _ in range(2):
        answer = world.post(world.path(service_id, verb))
        assert answer.status_code == 200
        assert other not in answer.json()["message"]
    world.work()
    assert other in world.post(world.path(service_id, verb)).json()["message"]


def test_an_answer_says_why_a_pooler_could_not_be_started(
    world: World, working: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_id = ready(world)

    def fail(servers: object, port: int) -> None:
        raise Failed("POOLER_PORT", "Port 7 is taken", "End the program that has it.")

    monkeypatch.setattr(world.backend.poolers, "start", fail)
    answer = world.post(world.path(service_id, "enablePooler"))
    assert (answer.status_code, answer.json()["code"]) == (400, "POOLER_FAILED")
    assert "Port 7 is taken" in answer.json()["details"]


def test_a_service_in_a_wrong_state_is_refused(world: World) -> None:
    queued = world.create()
    answer = world.post(world.path(queued["service_id"], "enablePooler"))
    assert answer.status_code == 400
    assert answer.json()["code"] == "INVALID_STATE"


def test_an_unknown_service_is_not_found(world: World) -> None:
    assert world.post(world.path("a" * 10, "enablePooler")).status_code == 404
