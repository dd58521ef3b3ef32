"""A request that a warm fork fits gets it, in one transaction, and nobody else does; any other gets a fork as ever."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from ramet.control.plane import Plane
from ramet.control.requests import ForkRequest
from ramet.control.services import get_service
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.rights import Role
from ramet.model.service import Service
from ramet.procedures.servers import server_of
from ramet.warm_forks import claims
from ramet.warm_forks.claims import fork_services
from tests.warm_forks.conftest import Warm

NOW = ForkRequest(ForkStrategy.NOW)


class Killed(BaseException):
    """The process ends here."""


def test_a_fork_of_an_unchanged_service_is_ready_at_once_with_its_own_password(warm: Warm) -> None:
    warm.keep(2)
    kept = warm.ids()
    fork = warm.world.fork(warm.shop, name="preview", labels={"pr": "42"}, ttl_seconds=600)
    assert (fork["service_id"] in kept, fork["status"], fork["name"]) == (True, "READY", "preview")
    shown = warm.world.look(fork)
    assert (shown["metadata"]["labels"], shown["metadata"]["ttl_seconds"]) == ({"pr": "42"}, 600)
    assert shown["forked_from"]["service_id"] == warm.shop["service_id"]
    assert "data_time" not in shown["metadata"]
    assert warm.rows(fork) == ["first"]
    server = server_of(get_service(warm.world.plane, warm.world.tenant.project.id, fork["service_id"]))
    assert warm.world.backend.servers.has_password(server, Secret(fork["initial_password"]))


def test_a_service_that_has_committed_since_is_forked_as_ever(warm: Warm) -> None:
    warm.keep(1)
    warm.write()
    fork = warm.world.fork(warm.shop)
    assert fork["status"] == "QUEUED"
    warm.world.work()
    assert warm.rows(fork) == ["first", "more"]
    assert len(warm.ids()) == 1


def test_a_warm_fork_whose_server_has_just_died_is_given_to_nobody(warm: Warm) -> None:
    warm.keep(2)
    dead, alive = warm.forks()
    warm.world.backend.crash(dead.id)
    assert warm.world.fork(warm.shop)["service_id"] == alive.id
    assert warm.world.fork(warm.shop)["status"] == "QUEUED"


def test_a_warm_fork_is_not_given_to_a_key_that_is_revoked_just_before(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.keep(1)
    developer, is_serving = warm.world.with_key(Role.DEVELOPER), claims._is_serving

    def interrupted(plane: Plane, fork: Service) -> bool:
        warm.world.projects.revoke_key(developer.tenant.key.public_key, warm.world.clock())
        return is_serving(plane, fork)

    monkeypatch.setattr(claims, "_is_serving", interrupted)
    path = developer.path(warm.shop["service_id"], "forkService")
    assert developer.post(path, {"fork_strategy": "NOW"}).status_code == 401
    assert len(warm.ids()) == 1


def test_an_older_state_is_given_only_to_those_who_asked_for_one(warm: Warm) -> None:
    warm.keep(2)
    warm.write()
    warm.world.advance(timedelta(seconds=30))
    assert warm.world.fork(warm.shop, max_age_seconds=20)["status"] == "QUEUED"
    fork = warm.world.fork(warm.shop, max_age_seconds=60)
    assert (fork["status"], warm.rows(fork)) == ("READY", ["first"])
    assert "data_time" in warm.world.look(fork)["metadata"]


@pytest.mark.parametrize(
    "fields",
    [
        {"environment_tag": "PROD"},
        {"quiet": False},
        {"cpu_millis": "500", "memory_gbs": "2"},
        {"wal_level": "logical"},
        {"sleep_after_seconds": 300},
        {"fork_strategy": "LAST_SNAPSHOT"},
    ],
)
def test_a_request_that_no_warm_fork_fits_is_served_as_ever(warm: Warm, fields: dict[str, Any]) -> None:
    warm.keep(1)
    assert warm.world.fork(warm.shop, **fields)["status"] == "QUEUED"
    assert len(warm.ids()) == 1


def ask_for_several(warm: Warm, count: int, key: str | None = None, **fields: Any) -> list[dict[str, Any]]:
    path = warm.world.path(warm.shop["service_id"], "forkServices")
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = warm.world.post(path, {"fork_strategy": "NOW", "count": count, **fields}, headers=headers)
    assert answer.status_code == 202, answer.text
    return list(answer.json())


def test_several_forks_at_once_are_warm_where_there_are_so_many_and_all_made_together_where_not(warm: Warm) -> None:
    warm.keep(3)
    kept = warm.ids()
    made = ask_for_several(warm, 4)
    assert ({one["status"] for one in made}, warm.ids()) == ({"QUEUED"}, kept)
    assert {one["status"] for one in ask_for_several(warm, 2, max_age_seconds=600)} == {"QUEUED"}
    given = ask_for_several(warm, 2, name="job")
    assert [(one["status"], one["name"]) for one in given] == [("READY", "job-1"), ("READY", "job-2")]
    assert len(kept - warm.ids()) == 2
    assert [one["name"] for one in warm.world.listed()][-2:] == ["job-1", "job-2"]


def test_who_repeats_a_request_for_several_gets_those_that_are_left_and_others_for_those_that_are_gone(
    warm: Warm,
) -> None:
    warm.keep(3)
    first = ask_for_several(warm, 2, "run-43")
    passwords = {one["service_id"]: one["initial_password"] for one in first}
    assert {one["service_id"]: one["initial_password"] for one in ask_for_several(warm, 2, "run-43")} == passwords
    gone, left = (one["service_id"] for one in first)
    warm.world.delete(warm.world.path(gone))
    warm.world.work()
    again, same = ask_for_several(warm, 2, "run-43")
    assert (same["service_id"], same["initial_password"]) == (left, passwords[left])
    warm.world.work()
    server = server_of(get_service(warm.world.plane, warm.world.tenant.project.id, again["service_id"]))
    assert warm.world.backend.servers.has_password(server, Secret(again["initial_password"]))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_age_seconds": 9}, "INVALID_MAX_AGE_SECONDS"),
        ({"max_age_seconds": 86_401}, "INVALID_MAX_AGE_SECONDS"),
        ({"max_age_seconds": 60, "fork_strategy": "LAST_SNAPSHOT"}, "MAX_AGE_NOT_ALLOWED"),
    ],
)
def test_an_age_that_makes_no_sense_is_refused(warm: Warm, fields: dict[str, Any], code: str) -> None:
    for query in ("", "?dry_run=true"):
        path = warm.world.path(warm.shop["service_id"], "forkService") + query
        answer = warm.world.post(path, {"fork_strategy": "NOW", **fields})
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_who_repeats_a_request_gets_the_same_fork_and_the_same_password(warm: Warm) -> None:
    warm.keep(2)
    path, key = warm.world.path(warm.shop["service_id"], "forkService"), {"Idempotency-Key": "run-42"}
    first = warm.world.post(path, {"fork_strategy": "NOW"}, headers=key).json()
    again = warm.world.post(path, {"fork_strategy": "NOW"}, headers=key).json()
    assert (again["service_id"], again["initial_password"]) == (first["service_id"], first["initial_password"])
    warm.world.post(warm.world.path(first["service_id"], "stop"))
    warm.world.work()
    stopped = warm.world.post(path, {"fork_strategy": "NOW"}, headers=key).json()
    assert (stopped["status"], stopped["initial_password"]) == ("PAUSED", first["initial_password"])
    warm.world.post(warm.world.path(first["service_id"], "start"))
    warm.world.work()
    changed = warm.world.post(path, {"fork_strategy": "NOW", "name": "other"}, headers=key).json()
    assert changed["code"] == "IDEMPOTENCY_KEY_REUSED"
    warm.world.post(warm.world.path(first["service_id"], "updatePassword"), {"password": "another"})
    assert "initial_password" not in warm.world.post(path, {"fork_strategy": "NOW"}, headers=key).json()
    warm.world.delete(warm.world.path(first["service_id"]))
    warm.world.work()
    assert warm.world.post(path, {"fork_strategy": "NOW"}, headers=key).json()["service_id"] != first["service_id"]


@pytest.mark.parametrize("step", ["ended_since", "within_limits", "password_of", "find_service", "remember"])
def test_a_claim_that_is_killed_before_its_commit_has_changed_nothing(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    warm.keep(1)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(claims, step, killed)
        with pytest.raises(Killed):
            fork_services(warm.world.plane, warm.world.tenant.project.id, warm.shop["service_id"], NOW, 1, "key")
    (kept,) = warm.ids()
    (claimed,) = fork_services(warm.world.plane, warm.world.tenant.project.id, warm.shop["service_id"], NOW, 1, "key")
    assert claimed.service.id == kept


def test_a_claim_that_is_killed_after_its_commit_is_found_by_its_key_and_by_no_other(warm: Warm) -> None:
    warm.keep(2)
    plane, project_id, shop_id = warm.world.plane, warm.world.tenant.project.id, warm.shop["service_id"]
    (lost,) = fork_services(plane, project_id, shop_id, NOW, 1, "key")  # and the answer never arrives
    (other,) = fork_services(plane, project_id, shop_id, NOW, 1, "another")
    (again,) = fork_services(plane, project_id, shop_id, NOW, 1, "key")
    assert (again.service.id, again.initial_password) == (lost.service.id, lost.initial_password)
    assert other.service.id != lost.service.id


def test_no_fork_is_given_twice_however_many_ask_at_once(everywhere: Warm) -> None:
    warm = everywhere
    warm.keep(5)
    kept = warm.ids()
    project_id, shop_id = warm.world.tenant.project.id, warm.shop["service_id"]
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(fork_services, warm.world.plane, project_id, shop_id, NOW) for _ in range(20)]
        given = [one.result()[0].service.id for one in asked]
    assert len(set(given)) == 20
    assert kept < set(given)
    assert warm.ids() == set()


def test_a_claim_counts_against_the_limits_of_who_claims(warm: Warm) -> None:
    warm.keep(2)
    forker = warm.world.forker(warm.shop, max_forks=1)
    fork = forker.fork(warm.shop)
    assert (fork["status"], [one["service_id"] for one in forker.listed()]) == ("READY", [fork["service_id"]])
    refused = forker.post(forker.path(warm.shop["service_id"], "forkService"), {"fork_strategy": "NOW"})
    assert refused.json()["code"] == "KEY_LIMIT"
    assert len(warm.ids()) == 1


def test_what_nobody_has_claimed_does_not_exist_for_clients(warm: Warm) -> None:
    warm.keep(2)
    world, (first, _) = warm.world, sorted(warm.ids())
    assert [one["name"] for one in world.listed()] == ["shop"]
    for answer in (
        world.get(world.path(first)),
        world.delete(world.path(first)),
        world.post(world.path(first, "stop")),
        world.get(world.path(first, "operations")),
        world.post(world.path(first, "forkService"), {"fork_strategy": "NOW"}),
        world.post(world.path(first, "forkService"), {"fork_strategy": "LAST_SNAPSHOT", "from_deleted": True}),
    ):
        assert answer.status_code == 404
    listed = world.get(world.services_path.removesuffix("/services") + "/operations").json()
    assert first not in str(listed)
    world.fork(warm.shop)
    assert len(world.listed()) == 2
