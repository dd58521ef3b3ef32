"""Keys over HTTP: made, listed, changed, rotated and revoked by admins; they expire, and say when they were used."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from ramet.endpoints import BASE_PATH
from ramet.model.rights import Role
from ramet.model.timestamps import parse_timestamp, rfc3339
from tests.api.world import JsonObject, World


def _keys_path(world: World) -> str:
    return f"{BASE_PATH}/projects/{world.tenant.project.id}/keys"


def _make(world: World, role: Role = Role.DEVELOPER, **fields: Any) -> JsonObject:
    answer = world.post(_keys_path(world), {"name": "ci", "role": role, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def _list_with(world: World, public_key: str, secret_key: str) -> httpx.Response:
    return world.client.get(world.services_path, auth=(public_key, secret_key))


def test_a_key_is_made_with_a_secret_that_appears_once(world: World) -> None:
    made = _make(world, max_services=2)
    assert _list_with(world, made["public_key"], made["secret_key"]).status_code == 200
    first, second = world.get(_keys_path(world)).json()
    assert first == {
        "public_key": world.tenant.key.public_key,
        "name": "key of main",
        "role": "ADMIN",
        "created": first["created"],
        "last_used": first["last_used"],
    }
    assert second == {**{name: made[name] for name in made if name != "secret_key"}, "last_used": second["last_used"]}
    assert (second["role"], second["max_services"], second["made_by"]) == ("DEVELOPER", 2, first["public_key"])
    assert world.get(f"{_keys_path(world)}/{made['public_key']}").json() == second


def test_a_rotated_key_accepts_both_secrets_for_a_while(world: World) -> None:
    made = _make(world)
    path = f"{_keys_path(world)}/{made['public_key']}/rotate"
    rotated = world.post(path, {"overlap_seconds": 600}).json()
    assert rotated["public_key"] == made["public_key"]
    secrets = [made["secret_key"], rotated["secret_key"]]
    assert [_list_with(world, made["public_key"], one).status_code for one in secrets] == [200, 200]
    world.advance(timedelta(seconds=601))
    assert [_list_with(world, made["public_key"], one).status_code for one in secrets] == [401, 200]
    last = world.post(path, {"overlap_seconds": 0}).json()
    secrets.append(last["secret_key"])
    assert [_list_with(world, made["public_key"], one).status_code for one in secrets] == [401, 401, 200]


def test_a_rotation_that_is_repeated_with_its_key_voids_no_secret(world: World) -> None:
    made = _make(world)
    path = f"{_keys_path(world)}/{made['public_key']}/rotate"

    def rotated(key: str) -> JsonObject:
        return dict(world.post(path, {"overlap_seconds": 600}, headers={"Idempotency-Key": key}).json())

    one, again = (rotated("first") for _ in range(2))
    assert one == again
    secrets = [made["secret_key"], one["secret_key"]]
    assert [_list_with(world, made["public_key"], each).status_code for each in secrets] == [200, 200]
    secrets += [rotated(key)["secret_key"] for key in ("second", "first")]
    assert len(set(secrets)) == 4  # none comes back
    assert [_list_with(world, made["public_key"], each).status_code for each in secrets] == [401, 401, 200, 200]


def test_a_rotation_that_is_repeated_with_a_shorter_overlap_ends_the_secret_before_it_then(world: World) -> None:
    made = _make(world)
    path = f"{_keys_path(world)}/{made['public_key']}/rotate"
    first, longer, none = (
        world.post(path, {"overlap_seconds": overlap}, headers={"Idempotency-Key": "first"}).json()
        for overlap in (600, 900, 0)
    )
    assert first == longer
    assert none["secret_key"] == first["secret_key"]
    assert parse_timestamp("until", none["previous_secret_until"]) <= world.clock()
    secrets = (made["secret_key"], first["secret_key"])
    assert [_list_with(world, made["public_key"], each).status_code for each in secrets] == [401, 200]


def test_a_key_expires_and_can_be_prolonged(world: World) -> None:
    made = _make(world, expires_at=rfc3339(world.clock() + timedelta(hours=1)))
    pair = (made["public_key"], made["secret_key"])
    assert _list_with(world, *pair).status_code == 200
    world.advance(timedelta(hours=2))
    refused = _list_with(world, *pair)
    assert (refused.status_code, "expired" in refused.json()["message"]) == (401, True)
    assert world.post(f"{_keys_path(world)}/{pair[0]}/rotate").json()["code"] == "KEY_EXPIRED"
    path = f"{_keys_path(world)}/{pair[0]}"
    answer = world.client.put(path, json={"expires_at": None, "name": "night"}, auth=world.tenant.credentials)
    assert (answer.status_code, answer.json()["name"]) == (200, "night")
    assert _list_with(world, *pair).status_code == 200


def test_a_key_says_when_it_was_used_to_about_a_minute(world: World) -> None:
    made = _make(world)
    used = []
    for seconds in (0, 30, 61):
        world.advance(timedelta(seconds=seconds))
        _list_with(world, made["public_key"], made["secret_key"])
        used.append(world.get(f"{_keys_path(world)}/{made['public_key']}").json()["last_used"])
    assert used[0] == used[1] < used[2]


def test_a_revoked_key_opens_nothing_and_the_last_one_of_an_admin_stays(world: World) -> None:
    made = _make(world)
    for _ in range(2):
        assert world.delete(f"{_keys_path(world)}/{made['public_key']}").status_code == 204
    assert _list_with(world, made["public_key"], made["secret_key"]).status_code == 401
    answer = world.delete(f"{_keys_path(world)}/{world.tenant.key.public_key}")
    assert (answer.status_code, answer.json()["code"]) == (400, "LAST_ADMIN_KEY")
    assert world.post(f"{_keys_path(world)}/{made['public_key']}/rotate").json()["code"] == "KEY_REVOKED"


def test_keys_of_another_project_are_not_found(world: World) -> None:
    stranger = world.new_tenant("stranger").key.public_key
    path = f"{_keys_path(world)}/{stranger}"
    answers = [world.get(path), world.delete(path), world.post(f"{path}/rotate")]
    answers.append(world.client.put(path, json={"name": "x"}, auth=world.tenant.credentials))
    assert [answer.json()["code"] for answer in answers] == ["KEY_NOT_FOUND"] * 4


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"role": "OWNER"}, "INVALID_FIELD"),
        ({"role": "FORKER"}, "INVALID_PARENTS"),
        ({"role": "FORKER", "parents": ["a000000000"]}, "INVALID_PARENTS"),
        ({"role": "VIEWER", "parents": ["a000000000"]}, "INVALID_PARENTS"),
        ({"role": "VIEWER", "max_forks": -1}, "INVALID_FIELD"),
        ({"role": "VIEWER", "max_fork_ttl_seconds": 1}, "INVALID_MAX_FORK_TTL_SECONDS"),
        ({"role": "VIEWER", "expires_at": "2020-01-01T00:00:00Z"}, "INVALID_EXPIRES_AT"),
        ({"role": "VIEWER", "name": ""}, "INVALID_NAME"),
    ],
)
def test_what_a_key_cannot_be_is_refused_by_name(world: World, fields: JsonObject, code: str) -> None:
    answer = world.post(_keys_path(world), {"name": "ci", **fields})
    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text


def test_a_key_knows_its_role_and_its_parents(world: World) -> None:
    shop = world.ready()
    answer = world.forker(shop).get(f"{BASE_PATH}/auth/info").json()
    assert answer["api_key"]["role"] == "FORKER"
    assert answer["api_key"]["parents"] == [{"service_id": shop["service_id"], "name": "shop"}]
