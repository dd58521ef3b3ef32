"""Keys in the console."""

import html
import re
from datetime import timedelta

import pytest

from ramet.control.plane import utc_now
from ramet.model.keys import ApiKey, KeyLimits
from ramet.model.passwords import Secret
from ramet.model.rights import Role
from tests.console.visitor import Visitor


@pytest.fixture(name="made")
def _made(visitor: Visitor) -> tuple[ApiKey, Secret]:
    """A key that the visitor, who is signed in with another one, has made."""
    visitor.sign_in()
    return visitor.world.runtime.projects.create_key(visitor.world.project.id, "ci", utc_now())


def test_a_form_that_is_sent_twice_rotates_once(visitor: Visitor, made: tuple[ApiKey, Secret]) -> None:
    key, secret = made
    path, projects = f"/console/keys/{key.public_key}", visitor.world.runtime.projects
    form = {**dict(re.findall(r'name="(_token|mark)" value="([^"]+)"', visitor.see(path))), "hours": "1"}
    first, second = (visitor.client.post(f"{path}/rotate", data=form) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 409)
    assert "got another secret after this form was opened" in second.text
    assert projects.is_opened_by(key.public_key, secret)
    assert visitor.client.post(f"{path}/rotate", data={"_token": form["_token"]}).status_code == 409
    again = dict(re.findall(r'name="(_token|mark)" value="([^"]+)"', second.text))
    assert visitor.client.post(f"{path}/rotate", data={**again, "hours": "1"}).status_code == 200
    assert not projects.is_opened_by(key.public_key, secret)


def test_a_key_has_the_role_the_life_and_the_limits_of_its_form(visitor: Visitor) -> None:
    visitor.sign_in()
    shop, projects = visitor.ready(), visitor.world.runtime.projects
    limits = {"max_services": "5", "parents": shop.id, "max_forks": "3", "fork_hours": "2"}
    page = visitor.send("/console/keys", name="agent", role="FORKER", days="30", **limits).text
    (made,) = [one for one in projects.list_keys(shop.project_id) if one.name == "agent"]
    assert (made.role, made.made_by) == (Role.FORKER, visitor.world.public_key)
    assert made.expires_at == made.created_at + timedelta(days=30)
    assert made.limits == KeyLimits(max_services=5, max_forks=3, max_fork_ttl_seconds=7200, parents=(shop.id,))
    secrets = [Secret(html.unescape(one)) for one in re.findall(r">([A-Za-z0-9_-]{40})<", page)]
    assert [projects.is_opened_by(made.public_key, one) for one in secrets] == [True]
    assert visitor.send("/console/keys", name="lasting", role="DEVELOPER", days="").status_code == 200
    (lasting,) = [one for one in projects.list_keys(shop.project_id) if one.name == "lasting"]
    assert (lasting.role, lasting.expires_at, lasting.limits) == (Role.DEVELOPER, None, KeyLimits())


@pytest.mark.parametrize("hours", [0, 2])
def test_a_rotated_secret_is_accepted_for_as_many_hours_as_the_form_says(
    visitor: Visitor, made: tuple[ApiKey, Secret], hours: int
) -> None:
    key, secret = made
    projects, before = visitor.world.runtime.projects, utc_now()
    path = f"/console/keys/{key.public_key}"
    form = dict(re.findall(r'name="(_token|mark)" value="([^"]+)"', visitor.see(path)))
    assert visitor.client.post(f"{path}/rotate", data={**form, "hours": str(hours)}).status_code == 200
    until = projects.get_key(key.project_id, key.public_key).previous_until
    assert until is not None
    assert before <= until - timedelta(hours=hours) <= utc_now()
    assert projects.is_opened_by(key.public_key, secret) is bool(hours)


def test_a_revoked_key_opens_nothing(visitor: Visitor, made: tuple[ApiKey, Secret]) -> None:
    key, secret = made
    path, projects = f"/console/keys/{key.public_key}", visitor.world.runtime.projects
    token = re.findall(r'name="(_token)" value="([^"]+)"', visitor.see(path))
    answer = visitor.client.post(f"{path}/revoke", data=dict(token))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/keys")
    assert projects.get_key(key.project_id, key.public_key).revoked_at is not None
    assert not projects.is_opened_by(key.public_key, secret)
