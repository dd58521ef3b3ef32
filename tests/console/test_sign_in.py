"""Signing in: keys, links, sessions, and forms of other sites."""

import html
import re
from datetime import timedelta
from unittest.mock import Mock

import pytest
import sqlalchemy as sa
from litestar._parsers import parse_url_encoded_form_data

from harness.waiting import eventually
from ramet.api.parsed_heads import KEPT_PARSERS, forget_long_head
from ramet.console.application import open_console
from ramet.console.auth.cookies import SESSION
from ramet.console.auth.csrf import CSRF_FIELD
from ramet.control import services
from ramet.control.plane import utc_now
from ramet.store.tables import session
from tests.console.visitor import Visitor
from tests.disconnecting import status_of_disconnected


def test_every_page_requires_a_session(visitor: Visitor) -> None:
    for path in ("/console/", "/console/new", "/console/lineage", "/console/services/abcdefghij", "/console/events"):
        answer = visitor.client.get(path)
        assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/console/sign-in")
    assert visitor.client.get("/").headers["location"] == "/console/"


def test_a_key_begins_a_session_with_a_strict_cookie(visitor: Visitor) -> None:
    answer = visitor.sign_in()
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 200
    assert all(word in cookie for word in (SESSION, "httponly", "samesite=strict", "path=/console"))
    assert "No services yet" in visitor.see("/console/")


def test_a_link_signs_in_once(visitor: Visitor) -> None:
    link = visitor.link
    assert visitor.client.get(link).status_code == 200
    assert "No services yet" in visitor.see("/console/")
    visitor.client.cookies.clear()
    assert visitor.client.get(link).status_code == 410
    assert visitor.client.get("/console/").status_code == 303


def test_a_link_signs_in_also_at_another_process_over_the_same_store(visitor: Visitor) -> None:
    runtime = visitor.world.runtime
    other = open_console(runtime.plane, runtime.projects, runtime.plane.root_key, dict)
    link = other.make_link(visitor.world.public_key)
    other.close()
    assert visitor.client.get(link).status_code == 200
    assert "No services yet" in visitor.see("/console/")


def test_a_link_works_no_longer_than_the_secret_that_it_was_made_with(visitor: Visitor) -> None:
    first, second, world = visitor.link, visitor.link, visitor.world
    for link, overlap_seconds, status in ((first, 60, 200), (second, 0, 401)):
        world.runtime.projects.rotate_key(world.project.id, world.public_key, overlap_seconds, utc_now())
        answer = visitor.client.get(link)
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, status == 200)
    assert "its secret was rotated" in answer.text


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/link"])
def test_a_browser_that_disconnects_while_it_signs_in_is_no_fault(
    visitor: Visitor, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert status_of_disconnected(visitor.world.runtime.http(), path, {}) == 400
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_no_form_is_kept_in_memory(visitor: Visitor) -> None:
    parse_url_encoded_form_data.cache_clear()
    assert visitor.sign_in().status_code == 200
    assert parse_url_encoded_form_data.cache_info().currsize == 0


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/link"])
def test_a_form_with_too_many_fields_is_refused(visitor: Visitor, path: str) -> None:
    fields = {f"field{number}": "" for number in range(200)}
    assert visitor.client.post(path, data=fields).status_code == 401
    refused = visitor.client.post(path, data={**fields, "one more": ""})
    assert refused.status_code == 400
    assert "more than 200 fields" in refused.text


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/link"])
@pytest.mark.parametrize("charset", ["utf-8", "nope"])
def test_a_form_of_another_type_is_refused(
    visitor: Visitor, path: str, charset: str, caplog: pytest.LogCaptureFixture
) -> None:
    part = f'--x\r\nContent-Disposition: form-data; name="next"\r\nContent-Type: text/plain; charset={charset}\r\n\r\n'
    refused = visitor.client.post(
        path, content=part.encode() + b"\xff\r\n--x--", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert refused.status_code == 400
    assert "Send it as application/x-www-form-urlencoded" in refused.text
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_addresses_that_cannot_be_read_are_no_fault(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    led = visitor.client.get("/console/", headers={"HX-Request": "true", "HX-Current-URL": "http://["})
    assert (led.status_code, led.headers["hx-redirect"]) == (401, "/console/sign-in?ended=yes")
    assert visitor.client.post("/console/sign-in", headers={"Origin": "http://["}).status_code == 403
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("path", "cookie"),
    [
        (f"/console/sign-in?{'a&' * 2048}", "a=b"),
        (f"/console/?{'a&' * 2048}", "a=b"),
        (f"/console/enter/{'a' * 4096}", "a=b"),
        ("/console/", "a=b; " * 1024 + "a=b"),
    ],
    ids=["query", "parameters", "path", "cookies"],
)
def test_what_was_parsed_of_a_long_head_is_not_kept(visitor: Visitor, path: str, cookie: str) -> None:
    assert len(KEPT_PARSERS) == 4  # a version of Litestar that has moved them would have them kept
    for parser in KEPT_PARSERS:
        parser.cache_clear()
    visitor.client.get(path, headers={"Cookie": cookie})
    eventually(lambda: [parser.cache_info().currsize for parser in KEPT_PARSERS] == [0] * len(KEPT_PARSERS))


def test_where_a_long_path_leads_is_not_kept(visitor: Visitor) -> None:
    app = visitor.world.runtime.http()
    for path, is_kept in (("/console/sign-in", True), (f"/console/services/{'a' * 4096}/delete", False)):
        status_of_disconnected(app, path, {})
        assert bool(app.asgi_router.handle_routing.cache_info().currsize) is is_kept


def test_a_version_that_does_not_keep_where_paths_lead_answers_long_heads() -> None:
    forget_long_head(Mock(asgi_router=object()), {"path": "a" * 4096, "query_string": b"", "headers": []})


def test_failed_attempts_are_throttled_and_the_right_key_is_accepted(visitor: Visitor) -> None:
    wrong = {"public_key": visitor.world.public_key, "secret_key": "wrong"}
    answers = [visitor.client.post("/console/sign-in", data=wrong) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert answers[-1].elapsed > timedelta(seconds=1)
    other = visitor.client.post("/console/sign-in", data={**wrong, "public_key": "RKOTHER"})
    assert other.status_code == 401
    assert visitor.sign_in().status_code == 200
    assert "No services yet" in visitor.see("/console/")


def test_who_tries_a_key_in_parallel_does_not_keep_its_holder_out(visitor: Visitor) -> None:
    world, throttle = visitor.world, visitor.world.runtime.console.context.throttle
    attempt = ("127.0.0.1", world.public_key)
    for _ in range(10):
        throttle.record_failure(attempt)
    while throttle.acquire(attempt):
        pass
    wrong = {"public_key": world.public_key, "secret_key": "wrong"}
    right = {**wrong, "secret_key": world.secret.reveal()}
    for path, status in (("/console/link", 201), ("/console/sign-in", 200)):
        assert visitor.client.post(path, data=wrong).status_code == 429
        assert visitor.client.post(path, data=right).status_code == status


def test_forms_and_links_of_other_sites_do_not_sign_in(visitor: Visitor) -> None:
    keys = {"public_key": visitor.world.public_key, "secret_key": visitor.world.secret.reveal()}
    here = visitor.origin.removeprefix("http://")
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": visitor.origin},
        {"Origin": "http://example.org"},
        {"Origin": f"http://{here}.example.org"},
        {"Origin": "null"},
    ):
        answer = visitor.client.post("/console/sign-in", data=keys, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), headers
    for headers in ({"Origin": visitor.origin}, {"Sec-Fetch-Site": "same-origin"}):
        assert visitor.client.post("/console/sign-in", data=keys, headers=headers).status_code == 200
    link = visitor.link
    for site in ("cross-site", "same-site", "same-origin"):
        led = visitor.client.get(link, headers={"Sec-Fetch-Site": site})
        assert (led.status_code, "set-cookie" in led.headers) == (403, False), site
    assert visitor.client.get(link, headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_signing_out_invalidates_every_copy_of_the_cookie(visitor: Visitor) -> None:
    visitor.sign_in()
    copied = {"Cookie": f"{SESSION}={visitor.client.cookies[SESSION]}"}
    token = re.findall(rf'name="{CSRF_FIELD}" value="([^"]+)"', visitor.see("/console/"))[0]
    with Visitor(visitor.world) as other:
        other.sign_in()
        assert other.client.get("/console/").status_code == 200
        assert visitor.client.post("/console/sign-out", data={CSRF_FIELD: token}).status_code == 303
        visitor.client.cookies.clear()
        assert visitor.client.get("/console/", headers=copied).status_code == 303
        assert other.client.get("/console/").status_code == 200


def test_revoking_a_key_ends_its_sessions(visitor: Visitor) -> None:
    visitor.sign_in()
    assert visitor.client.get("/console/").status_code == 200
    visitor.world.runtime.projects.revoke_key(visitor.world.public_key, utc_now())
    assert visitor.client.get("/console/").status_code == 303


def test_a_changed_cookie_is_refused(visitor: Visitor) -> None:
    visitor.sign_in()
    token = visitor.client.cookies[SESSION]
    with visitor.world.runtime.store.read() as tx:
        kept = str(tx.execute(sa.select(session.c.digest)).scalar_one())
    visitor.client.cookies.clear()
    for text in (f"x{token}", token[:-1], kept, "", "."):
        assert visitor.client.get("/console/", headers={"Cookie": f"{SESSION}={text}"}).status_code == 303


def test_a_form_without_the_csrf_token_of_the_session_is_refused(visitor: Visitor) -> None:
    visitor.sign_in()
    fields = {"name": "stolen", "service_type": "POSTGRES", "size": "shared", "environment": "DEV"}
    for token in ({}, {CSRF_FIELD: ""}, {CSRF_FIELD: "0" * 64}):
        assert visitor.client.post("/console/new", data={**fields, **token}).status_code == 403
    assert services.list_services(visitor.world.runtime.plane, visitor.world.project.id) == []


def test_signing_in_never_redirects_to_another_site(visitor: Visitor) -> None:
    for elsewhere in ("https://example.org/", "//example.org", "/console//example.org", "/public", "/console/\\x"):
        page = visitor.client.get("/console/sign-in", params={"next": elsewhere}).text
        assert 'name="next" value="/console/"' in page


@pytest.mark.parametrize(
    "path",
    [
        "enter/x",
        "%65nter/x",
        "help/../enter/x",
        "./enter/x?a=b",
        "%2e%2e/console/enter/x",
        "enter/x#/../..",
        "a%2Fb/../enter/x",
        "%2F/../enter/x",
    ],
)
def test_signing_in_never_leads_to_a_link_that_signs_in(visitor: Visitor, path: str) -> None:
    page = visitor.client.get("/console/sign-in", params={"next": f"/console/{path}"}).text
    assert 'name="next" value="/console/"' in page


def test_signing_in_returns_to_the_requested_page_and_query(visitor: Visitor) -> None:
    wanted = "/console/services/abcdefghij/fork?strategy=PITR&target_time=2026-01-15T10:30:00%2B02:00"
    where = visitor.client.get(wanted).headers["location"]
    page = visitor.client.get(where).text
    assert f'name="next" value="{html.escape(wanted)}"' in page
    part = {"HX-Request": "true", "HX-Current-URL": f"{visitor.origin}/console/?q=shop"}
    led = visitor.client.get("/console/services/abcdefghij/logs?few", headers=part)
    door = "/console/sign-in?next=/console/%3Fq%3Dshop&ended=yes"
    assert (led.status_code, led.headers["hx-redirect"]) == (401, door)
    assert visitor.client.get("/console/").headers["location"] == "/console/sign-in"
    assert "Your session has ended" not in visitor.see("/console/sign-in")


def test_a_form_sent_after_the_session_ended_returns_to_the_form(visitor: Visitor) -> None:
    for path, form in (("/console/services/abcdefghij/fork",) * 2, ("/console/sign-out", "/console/")):
        answer = visitor.client.post(path, data={"name": "late"})
        assert answer.status_code == 303
        page = visitor.see(answer.headers["location"])
        assert "Your session has ended" in page
        assert f'name="next" value="{form}"' in page


def test_a_form_of_an_older_session_can_be_opened_again(visitor: Visitor) -> None:
    visitor.sign_in()
    refused = visitor.client.post("/console/new", data={"name": "late"})
    assert refused.status_code == 403
    assert 'href="/console/new">Open the form again' in refused.text
    assert "Open the form again" not in visitor.client.post("/console/sign-out").text
