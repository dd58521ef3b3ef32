"""Insight, settings and logins of a service in the console."""

import html
import re

from harness.waiting import eventually
from ramet.model.service import status_of
from ramet.model.status import Status
from tests.console.visitor import Visitor


def test_statements_sessions_and_tables_are_shown_or_why_they_are_not(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.world.backend.commit(service.id, "one")
    shown = visitor.see(f"/console/services/{service.id}/insight")
    for text in ("INSERT INTO rows", "idle", "public.rows", "public.rows_value", "the size of the service decides"):
        assert text in shown, text
    assert "has no database" in visitor.see(f"/console/services/{service.id}/insight?database=<b>")
    visitor.world.backend.crash(service.id)
    assert "not running" in visitor.see(f"/console/services/{service.id}/insight")


def test_a_setting_is_changed_in_a_form_and_what_is_refused_stays_there(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"/console/services/{service.id}/settings"
    assert "statement_timeout" in visitor.see(path)
    refused = visitor.send(path, setting="work_mem", value="a lot")
    assert refused.status_code == 422
    assert "work_mem must be between 64kB" in html.unescape(refused.text)
    assert visitor.send(path, setting="max_connections", value="200").status_code == 303
    visitor.settled("shop")
    assert "Pending restart: max_connections" in visitor.see(path)
    assert "PENDING RESTART" in visitor.see(f"/console/services/{service.id}/insight")
    assert visitor.send(path, setting="work_mem", value="64MB", restart="yes").status_code == 303
    visitor.settled("shop")
    shown = visitor.see(path)
    assert "Pending restart" not in shown
    assert "<b>64MB</b>" in shown
    assert 'value="64MB"' in visitor.see(f"{path}?setting=work_mem")
    assert visitor.send(path, setting="work_mem", value="").status_code == 303
    eventually(lambda: status_of(visitor.named("shop")) is Status.READY and "<b>64MB</b>" not in visitor.see(path))


def test_a_login_is_made_with_its_password_shown_once_and_revoked(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"/console/services/{service.id}/logins"
    assert "There are none" in visitor.see(path)
    assert visitor.send(path, hours="13").status_code == 422
    made = html.unescape(visitor.send(path, hours="2", read_only="yes").text)
    assert "Read-only until" in made
    role = re.search(r"ramet_login_[a-z0-9]{10}", made)
    password = re.search(r'<code id="password"[^>]*>([^<]+)<', made)
    assert role is not None
    assert password is not None
    assert f"postgresql://{role[0]}:{password[1]}@" in made
    listed = visitor.see(path)
    assert role[0] in listed
    assert password[1] not in listed
    token = re.search(r'name="_token" value="([^"]+)"', listed)
    assert token is not None
    assert visitor.client.post(f"{path}/{role[0]}/revoke", data={"_token": token[1]}).status_code == 303
    assert "There are none" in visitor.see(path)
    assert visitor.client.post(f"{path}/{role[0]}/revoke", data={"_token": token[1]}).status_code == 404
