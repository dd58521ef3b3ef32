"""Events and webhooks in the console."""

import html
import re

from ramet.events import webhooks
from tests.console.visitor import Visitor

_FORM = "/console/webhooks"


def _do(visitor: Visitor, path: str, action: str) -> int:
    shown = visitor.see(path)
    fields = re.findall(r'name="(_token|mark)" value="([^"]+)"', shown)
    return visitor.client.post(f"{path}/{action}", data=dict(fields)).status_code


def test_a_webhook_is_made_tested_changed_and_deleted(visitor: Visitor) -> None:
    visitor.sign_in()
    visitor.ready()
    assert "service.ready" in visitor.see(_FORM)
    wrong = visitor.client.post(_FORM, data=_fields(visitor, url="ftp://example.com"))
    assert wrong.status_code == 422
    assert "not a URL that begins with https" in html.unescape(wrong.text)
    made = visitor.client.post(_FORM, data={**_fields(visitor, url="https://127.0.0.1:1/"), "service.down": "yes"})
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", html.unescape(made.text))
    path = re.search(r"/console/webhooks/[a-z0-9]{10}", made.text)
    assert secret is not None
    assert path is not None
    shown = visitor.see(path[0])
    assert secret[0] not in html.unescape(shown)
    assert "Types: service.down" in shown
    plane, project_id = visitor.world.runtime.plane, visitor.world.project.id
    for action, is_enabled in (("test", True), ("disable", False), ("enable", True), ("redeliver", True)):
        assert _do(visitor, path[0], action) == 303
        assert webhooks.get_webhook(plane, project_id, path[0].rpartition("/")[2]).enabled is is_enabled
    assert "webhook.test" in visitor.see(path[0])
    assert _do(visitor, path[0], "rotate") == 200
    assert _do(visitor, path[0], "nonsense") == 404
    assert _do(visitor, path[0], "delete") == 303
    assert "There are none yet" in visitor.see(_FORM)


def test_a_form_that_is_sent_twice_makes_one_new_secret(visitor: Visitor) -> None:
    visitor.sign_in()
    plane, project_id = visitor.world.runtime.plane, visitor.world.project.id
    made = webhooks.create_webhook(plane, project_id, "https://example.com/")
    path = f"{_FORM}/{made.id}"
    form = dict(re.findall(r'name="(_token|mark)" value="([^"]+)"', visitor.see(path)))
    answers = [visitor.client.post(f"{path}/rotate", data=form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert webhooks.get_webhook(plane, project_id, made.id).previous_secret == made.secret
    assert _do(visitor, path, "rotate") == 200


def _fields(visitor: Visitor, **fields: str) -> dict[str, str]:
    token = re.search(r'name="_token" value="([^"]+)"', visitor.see(_FORM))
    assert token is not None
    return {"_token": token[1], **fields}
