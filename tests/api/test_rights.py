"""Every route of the interface has a right, and each role may do what the table says, in its own project alone."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from ramet import __version__
from ramet.api.application import openapi_json
from ramet.endpoints import BASE_PATH
from ramet.model.keys import NO_KEY_LIMITS, KeyLimits
from ramet.model.rights import RIGHTS, RIGHTS_OF, Right, Role, allows, not_allowed
from tests.api.world import JsonObject, World


class Route(NamedTuple):
    """A route of the document."""

    method: str
    path: str
    operation: str


def _routes() -> Iterator[Route]:
    document = msgspec.json.decode(openapi_json(__version__))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield Route(method.upper(), path, operation["operationId"])


def test_each_route_has_a_right_and_each_right_a_route() -> None:
    assert sorted(route.operation for route in _routes()) == sorted(RIGHTS)


def test_what_is_not_in_the_table_is_nobodys() -> None:
    assert not any(allows(role, "somethingNew") for role in Role)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("createService", "create service"),
        ("setHAReplica", "set HA replica"),
        ("attachServiceToVPC", "attach service to VPC"),
    ],
)
def test_a_refusal_says_in_words_what_a_role_may_not_do(operation: str, words: str) -> None:
    refused = not_allowed(Role.FORKER, operation)
    assert refused.message == f"A key with the role FORKER may not do this: {words}"
    assert refused.details == "Use a key with the role DEVELOPER or ADMIN."


def test_a_role_has_all_rights_of_a_lesser_one() -> None:
    assert RIGHTS_OF[Role.VIEWER] < RIGHTS_OF[Role.DEVELOPER] < RIGHTS_OF[Role.ADMIN] == frozenset(Right)
    assert RIGHTS_OF[Role.FORKER] < RIGHTS_OF[Role.DEVELOPER]


def test_each_role_may_do_in_its_project_what_the_table_says_and_in_another_one_nothing(world: World) -> None:
    shop, stranger = world.ready(), world.new_tenant("stranger")
    for role in Role:
        limits = KeyLimits(parents=(shop["service_id"],)) if role is Role.FORKER else NO_KEY_LIMITS
        key, secret = world.projects.create_key(world.tenant.project.id, role, world.clock(), role=role, limits=limits)
        for route in _routes():
            credentials = (key.public_key, secret.reveal())
            own = _status(world, route, credentials, world.tenant.project.id, "a000000000")
            assert (own == 403) is not allows(role, route.operation), (role, route, own)
            if "{project_id}" in route.path:
                assert _status(world, route, credentials, stranger.project.id, shop["service_id"]) == 403, (role, route)
    assert [one["status"] for one in world.listed()] == ["READY"]


def _status(world: World, route: Route, credentials: tuple[str, str], project_id: str, service_id: str) -> int:
    known = {"project_id": project_id, "service_id": service_id}
    path = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "a000000001"), route.path)
    body: JsonObject | None = None if route.method in ("GET", "DELETE") else {"unknown": True}
    answer = world.client.request(route.method, BASE_PATH + path, json=body, auth=credentials)
    assert answer.status_code < 500, answer.text
    return answer.status_code
