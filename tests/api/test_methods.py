"""What every path has beside its own methods, and what is asked of requests that change something."""

import re

import httpx
import pytest

from ramet.endpoints import BASE_PATH
from tests.api.world import JsonObject, World


@pytest.fixture
def parent(world: World) -> JsonObject:
    return world.ready()


def ask(world: World, method: str, path: str) -> httpx.Response:
    return world.client.request(method, path, auth=world.tenant.credentials)


def test_head_is_answered_as_get_is_without_the_body(world: World, parent: JsonObject) -> None:
    for path in (world.services_path, world.path(parent["service_id"]), f"{BASE_PATH}/openapi.json"):
        got, headed = ask(world, "GET", path), ask(world, "HEAD", path)
        assert (headed.status_code, headed.content) == (200, b"")
        assert headed.headers["content-length"] == got.headers["content-length"]
        assert headed.headers["content-type"] == got.headers["content-type"]


def test_head_of_a_stream_ends(world: World) -> None:
    path, headers = world.services_path.removesuffix("services") + "events", {"Accept": "text/event-stream"}
    answer = world.client.head(path, auth=world.tenant.credentials, headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_head_of_what_is_not_there_or_not_allowed_has_the_status_of_get(world: World) -> None:
    assert ask(world, "HEAD", world.path("a000000000")).status_code == 404
    assert ask(world, "HEAD", world.path("a000000000", "stop")).status_code == 405
    assert world.client.head(world.services_path).status_code == 401


def test_options_names_every_method_of_each_path_of_the_interface(world: World) -> None:
    paths = world.client.get(f"{BASE_PATH}/openapi.json").json()["paths"]
    names = {"project_id": world.tenant.project.id, "vpc_id": "1", "peering_id": "2"}
    for path, operations in paths.items():
        filled = re.sub(r"{(\w+)}", lambda part: names.get(part[1], "a"), path)
        answer = ask(world, "OPTIONS", filled if filled.startswith(BASE_PATH) else BASE_PATH + filled)
        named = set(answer.headers["allow"].split(", "))
        wanted = {method.upper() for method in operations if method.isalpha()} - {"PARAMETERS"}
        assert answer.status_code == 204
        assert named == {*wanted, "OPTIONS", *(["HEAD"] if "GET" in wanted else [])}, path


@pytest.mark.parametrize(
    ("query", "code", "named"),
    [
        ("dryrun=true", "UNKNOWN_PARAMETER", "dryrun"),
        ("dry-run=true", "UNKNOWN_PARAMETER", "dry-run"),
        ("dry_run=true&colour=red", "UNKNOWN_PARAMETER", "colour"),
        ("dry_run=false&dry_run=true", "REPEATED_PARAMETER", "dry_run"),
        ("dry_run=true&dry_run=true", "REPEATED_PARAMETER", "dry_run"),
        ("dryrun", "UNKNOWN_PARAMETER", "dryrun"),
        ("%ff=1", "UNKNOWN_PARAMETER", "query parameter"),
        ("dry_run=maybe", "INVALID_PARAMETER", "dry_run"),
    ],
)
def test_a_fork_with_unknown_repeated_or_bad_parameters_is_refused_by_name(
    world: World, parent: JsonObject, query: str, code: str, named: str
) -> None:
    answer = world.post(world.path(parent["service_id"], "forkService") + f"?{query}", {"fork_strategy": "NOW"})
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert named in answer.json()["message"]
    assert [one["service_id"] for one in world.listed()] == [parent["service_id"]]


def test_no_request_that_changes_something_takes_a_parameter_that_it_does_not_know(
    world: World, parent: JsonObject
) -> None:
    service = parent["service_id"]
    for method, path in (
        ("POST", world.services_path),
        ("DELETE", world.path(service)),
        ("POST", world.path(service, "stop")),
        ("PUT", world.path(service, "restoreSettings")),
        ("POST", world.path(service, "snapshots")),
    ):
        answer = ask(world, method, f"{path}?force=yes")
        assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN_PARAMETER")
    assert world.look(parent)["status"] == "READY"


def test_who_has_no_key_does_not_learn_what_parameters_there_are(world: World, parent: JsonObject) -> None:
    assert world.client.post(world.path(parent["service_id"], "forkService") + "?dryrun=1").status_code == 401
