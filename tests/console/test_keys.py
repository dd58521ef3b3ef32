"""Keys in the console."""

import re

import pytest

from ramet.control.plane import utc_now
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret
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
