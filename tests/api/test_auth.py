"""Credentials: which headers are read, and what a key opens."""

import base64
from datetime import UTC, datetime

import pytest

from ramet.api.auth import credentials
from ramet.endpoints import BASE_PATH
from ramet.errors import Unauthorized
from tests.api.world import World


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "header",
    [
        f"Basic {_encoded('RKPUBLIC:secret')}",
        f"basic {_encoded('RKPUBLIC:secret')}",
        "Bearer RKPUBLIC:secret",
        f"Bearer {_encoded('RKPUBLIC:secret')}",
        "BEARER  RKPUBLIC:secret ",
    ],
)
def test_basic_and_bearer_carry_a_key(header: str) -> None:
    public_key, secret = credentials(header)
    assert (public_key, secret.reveal()) == ("RKPUBLIC", "secret")


def test_only_the_first_colon_separates() -> None:
    public_key, secret = credentials(f"Basic {_encoded('RKPUBLIC:a:b')}")
    assert (public_key, secret.reveal()) == ("RKPUBLIC", "a:b")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        "Basic RKPUBLIC:secret",
        f"Basic {_encoded('RKPUBLIC')}",
        "Basic %%%",
        f"Basic {base64.b64encode(bytes([255, 254, 58])).decode()}",
        f"Basic {_encoded(chr(0) + ':x')}",
        "Bearer RKPUBLIC",
        f"Digest {_encoded('RKPUBLIC:secret')}",
        "RKPUBLIC:secret",
    ],
)
def test_anything_else_is_unauthorized(header: str) -> None:
    with pytest.raises(Unauthorized):
        credentials(header)


def test_without_a_valid_key_nothing_is_done_and_the_challenge_is_given(world: World) -> None:
    public_key, secret = world.tenant.credentials
    for pair in ("RKNOBODY:" + secret, public_key + ":wrong", public_key + ":", ":" + secret, ""):
        headers = {"Authorization": f"Bearer {pair}"} if pair else {}
        for answer in (
            world.client.post(world.services_path, json={"name": "x"}, headers=headers),
            world.client.post(world.services_path, content=b"no json", headers=headers),
            world.client.get(f"{BASE_PATH}/auth/info", headers=headers),
            world.client.post(f"{BASE_PATH}/analytics/track", json={"event": "x"}, headers=headers),
        ):
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
            assert answer.headers["www-authenticate"].startswith("Basic ")
    assert world.listed() == []


def test_a_revoked_key_opens_nothing(world: World) -> None:
    world.projects.revoke_key(world.tenant.key.public_key, datetime.now(UTC))
    assert world.get(world.services_path).status_code == 401


def test_another_projects_key_changes_nothing_and_cannot_tell_whether_the_project_exists(world: World) -> None:
    service = world.ready()["service_id"]
    stranger = world.new_tenant("stranger")
    unknown = world.services_path.replace(world.tenant.project.id, "a000000000")
    for path, method in (("", "GET"), ("", "POST"), (f"/{service}", "GET"), (f"/{service}", "DELETE")):
        answers = [
            world.client.request(method, base + path, json={"name": "x"}, auth=stranger.credentials)
            for base in (world.services_path, unknown)
        ]
        assert [answer.status_code for answer in answers] == [403, 403]
        messages = [answer.text.replace(world.tenant.project.id, "a000000000") for answer in answers]
        assert messages[0] == messages[1]
    assert [seen["status"] for seen in world.listed()] == ["READY"]


def test_forms_of_other_sites_change_nothing(world: World) -> None:
    service = world.ready()["service_id"]
    stop, host = world.path(service, "stop"), world.client.base_url.netloc.decode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": f"http://{host}"},
        {"Origin": "http://example.org"},
        {"Origin": "null"},
    ):
        refused = world.post(stop, headers=form | headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), headers
        assert world.client.get(world.path(service), auth=world.tenant.credentials, headers=headers).status_code == 200
    world.work()
    assert world.look({"service_id": service})["status"] == "READY"


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://{host}"}])
def test_programs_and_pages_of_this_host_change_services(world: World, headers: dict[str, str]) -> None:
    host = world.client.base_url.netloc.decode()
    stop = world.path(world.ready()["service_id"], "stop")
    sent = {name: value.format(host=host) for name, value in headers.items()}
    assert world.post(stop, headers=sent).status_code == 202


def test_a_service_of_another_project_is_not_found_under_ones_own(world: World) -> None:
    service = world.ready()["service_id"]
    stranger = world.new_tenant("stranger")
    own = f"{BASE_PATH}/projects/{stranger.project.id}/services/{service}"
    for method, path in (("GET", own), ("DELETE", own), ("POST", f"{own}/stop"), ("POST", f"{own}/forkService")):
        answer = world.client.request(method, path, json={"fork_strategy": "NOW"}, auth=stranger.credentials)
        assert (answer.status_code, answer.json()["message"]) == (404, "no service with that id exists")
    assert world.look({"service_id": service})["status"] == "READY"
