"""Notifications: what happened since somebody looked, counted in the header and marked on their page."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import BrowserContext, expect

from harness.waiting import eventually
from ramet.console.views.notices import NOTICED, ends_soon, notice_of
from ramet.control.plane import utc_now
from ramet.control.requests import ForkRequest
from ramet.model.events import Event, EventType
from ramet.model.fork import ForkStrategy
from ramet.store import events, services
from tests.console.browsers import enter, hide
from tests.console.visitor import Visitor
from tests.worlds import fork_service

_NOTIFYING = (
    "window.told = []; document.hasFocus = () => false;"
    "window.Notification = class { static permission = 'default';"
    " static async requestPermission() { return this.permission = 'granted'; }"
    " constructor(text, options) { window.told.push([text, options.body]); } };"
)
_NEW = '<span class="tag new">new</span>'


def _count(page: str) -> int:
    found = re.search(r'aria-label="Notifications(?:, (\d+) new)?"', page)
    assert found is not None
    return int(found[1] or 0)


def _fails(visitor: Visitor, service_id: str) -> None:
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, service_id, drill_failure="It stopped elsewhere.")


def test_what_happened_since_somebody_looked_is_counted_and_looking_ends_that(visitor: Visitor) -> None:
    visitor.sign_in()
    assert "Nothing has happened yet" in visitor.see("/console/notifications")
    shop = visitor.ready()
    assert _count(visitor.see("/console/help")) == 1
    shown = visitor.see("/console/notifications")
    assert (_count(shown), shown.count(_NEW)) == (0, 1)
    assert f'<a href="/console/services/{shop.id}">shop is READY</a>' in shown
    assert _count(visitor.see("/console/help")) == 0
    assert _NEW not in visitor.see("/console/notifications")
    _fails(visitor, shop.id)
    assert _count(visitor.see("/console/help")) == 1
    part = visitor.see("/console/notifications/count")
    assert 'data-text="A restore drill of shop failed" data-reason="It stopped elsewhere."' in part
    since = re.search(r"notifications\?since=\d+", visitor.see("/console/notifications"))
    assert since is not None
    assert visitor.see(f"/console/{since[0]}").count(_NEW) == 1, "a live update keeps what is marked"


def test_a_browser_that_signs_in_first_has_seen_all_and_signing_out_forgets_nothing(visitor: Visitor) -> None:
    visitor.sign_in()
    visitor.ready()
    with Visitor(visitor.world) as other:
        other.sign_in()
        assert _count(other.see("/console/")) == 0
    token = re.findall(r'name="_token" value="([^"]+)"', visitor.see("/console/"))[0]
    visitor.client.post("/console/sign-out", data={"_token": token})
    visitor.sign_in()
    assert _count(visitor.see("/console/")) == 1


def test_numbers_that_begin_again_after_a_recovery_are_counted(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    name = f"ramet_seen_{visitor.world.project.id}"
    kept = next(cookie for cookie in visitor.client.cookies.jar if cookie.name == name)
    kept.value = "999"
    assert _count(visitor.see("/console/help")) == 0
    visitor.see("/console/notifications")
    _fails(visitor, shop.id)
    assert _count(visitor.see("/console/help")) == 1


@pytest.mark.parametrize("cookie", ["", "x", "-1", "9" * 30, "٣"])
def test_a_changed_cookie_does_no_harm(visitor: Visitor, cookie: str) -> None:
    visitor.sign_in()
    name = f"ramet_seen_{visitor.world.project.id}"
    session = visitor.client.cookies["ramet_session"]
    visitor.client.cookies.clear()
    sent = {b"Cookie": f"ramet_session={session}; {name}={cookie}".encode()}
    assert _count(visitor.client.get("/console/", headers=sent).text) == 0


def test_each_type_but_deletions_and_tests_is_a_sentence(visitor: Visitor) -> None:
    assert set(EventType) - set(NOTICED) == {EventType.SERVICE_DELETED, EventType.WEBHOOK_TEST}
    data = {"service_name": "shop", "operation": "resize", "key_name": "ci", "code": "KEY_LIMIT"}
    made = [Event(sequence=1, at=utc_now(), project_id="p", type=one, service_id="s", data=data) for one in NOTICED]
    found = [notice_of(event, 0) for event in made]
    assert all("shop" in one.text or "ci" in one.text for one in found)
    assert "Resize failed for shop" in [one.text for one in found]
    assert {one.tone for one in found} == {"ok", "warn", "bad"}


def test_only_the_wanted_types_after_a_number_are_counted_up_to_a_limit(visitor: Visitor) -> None:
    store, at, project = visitor.world.runtime.store, utc_now(), visitor.world.project.id
    with store.write() as tx:
        for type_ in (EventType.SERVICE_DELETED, EventType.SERVICE_READY, EventType.SERVICE_DOWN):
            events.append(tx, at, project, type_, None, {})
            events.append(tx, at, "another000", type_, None, {})
        assert events.count_after(tx, project, NOTICED, 0, 100) == 2
        assert events.count_after(tx, project, NOTICED, 3, 100) == 1
        assert events.count_after(tx, project, NOTICED, 0, 1) == 1
        newest = events.list_of_types(tx, project, NOTICED, 1)
    assert [one.type for one in newest] == [EventType.SERVICE_DOWN]


def test_keys_that_end_within_a_week_are_told(visitor: Visitor) -> None:
    key, now = visitor.world.runtime.projects.list_keys(visitor.world.project.id)[0], utc_now()
    changed = visitor.world.runtime.projects.change_key
    assert ends_soon("", [key], now) == []
    end = now + timedelta(days=6)
    changed(visitor.world.project.id, key.public_key, now, expires_at=end)
    visitor.sign_in()
    assert f"The API key {key.name} ({key.public_key}) ends at" in visitor.see("/console/notifications")


def test_the_browser_notifies_those_who_ask_for_it(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    context.add_init_script(_NOTIFYING)
    page = enter(context, visitor.link)
    page.goto(visitor.origin + "/console/notifications")
    _fails(visitor, shop.id)
    expect(page.get_by_text("A restore drill of shop failed")).to_be_visible()
    assert page.evaluate("told") == []
    page.get_by_role("button", name="Notify me in this browser").click()
    expect(page.get_by_role("button", name="Stop notifying me")).to_be_visible()
    fork_service(visitor.world.runtime.plane, shop.project_id, shop.id, ForkRequest(ForkStrategy.NOW, "copy"))
    eventually(lambda: ["copy is READY", ""] in page.evaluate("told"))
    page.get_by_role("button", name="Stop notifying me").click()
    expect(page.get_by_role("button", name="Notify me in this browser")).to_be_visible()


def test_a_page_in_the_background_asks_for_what_is_new(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    context.add_init_script(_NOTIFYING)
    page = enter(context, visitor.link)
    page.clock.install()
    page.goto(visitor.origin + "/console/notifications")
    page.get_by_role("button", name="Notify me in this browser").click()
    expect(page.get_by_role("button", name="Stop notifying me")).to_be_visible()
    hide(page)
    _fails(visitor, shop.id)
    page.clock.run_for(31_000)
    eventually(lambda: page.evaluate("told") == [["A restore drill of shop failed", "It stopped elsewhere."]])


def test_pages_in_the_background_leave_the_connections_of_the_browser_to_others(
    visitor: Visitor, context: BrowserContext
) -> None:
    context.add_init_script("localStorage.setItem('ramet-notify', 'on');")
    enter(context, visitor.link).close()
    for _ in range(7):
        page = context.new_page()
        with page.expect_response("**/console/events*"):
            page.goto(visitor.origin + "/console/help")
        hide(page)
