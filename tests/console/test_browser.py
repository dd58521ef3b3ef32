"""What people do in a real browser, over the memory backend: live changes, keyboard, narrow screens, accessibility."""

import re
from datetime import timedelta
from threading import Event

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from ramet.console.auth.cookies import SESSION
from ramet.control import replica_sets
from ramet.control.plane import utc_now
from ramet.control.requests import CreateRequest
from ramet.control.services import create_service, delete_service
from ramet.errors import Failed
from ramet.store import services
from tests.console.browsers import enter, watch
from tests.console.visitor import Visitor, make_family


def test_a_page_that_connects_late_fetches_what_changed(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/console/events*", hold)
    with page.expect_request("**/console/events*"):
        page.goto(f"{visitor.origin}/console/services/{shop.id}")
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, name="store")
    held[0].continue_()
    expect(page.get_by_role("heading", name="store", level=1)).to_be_visible()


def test_a_second_tab_shows_the_changes_of_the_first(visitor: Visitor, context: BrowserContext) -> None:
    first = enter(context, visitor.link)
    second = context.new_page()
    second.goto(visitor.origin + "/console/")
    expect(second.get_by_text("No services yet")).to_be_visible()
    first.get_by_role("link", name="New service").first.click()
    first.get_by_label("Name").fill("shop")
    first.get_by_role("button", name="Create").click()
    expect(first.get_by_text("Password (shown only once)")).to_be_visible()
    expect(first.locator("#progress .pill.ok")).to_have_text("READY")
    expect(second.locator("tr", has_text="shop").locator(".pill.ok")).to_have_text("READY")


def test_a_click_is_not_lost_when_something_changes_while_the_button_is_down(
    visitor: Visitor, context: BrowserContext
) -> None:
    page = enter(context, visitor.link)
    page.get_by_role("link", name="New service").first.hover()
    page.mouse.down()
    with page.expect_response(lambda response: "?q=" in response.url) as fetched:
        visitor.sign_in()
        visitor.ready("shop")
    fetched.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    page.mouse.up()
    expect(page).to_have_title(re.compile("New service"))


def test_a_live_update_waits_for_the_release_of_the_button(visitor: Visitor, context: BrowserContext) -> None:
    page = enter(context, visitor.link)
    page.get_by_role("heading", name="No services yet").hover()
    page.mouse.down()
    with page.expect_response(lambda response: "?q=" in response.url):
        visitor.sign_in()
        visitor.ready("shop")
    page.mouse.up()
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()


def test_a_service_page_keeps_its_title_after_live_updates(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    for part in ("#metrics", "#logs"):
        expect(page.locator(part)).to_be_visible()
    expect(page.locator(".lazy")).to_have_count(0)
    assert page.title() == "shop · Ramet"
    visitor.send(f"/console/services/{shop.id}/rename", name="store")
    expect(page.get_by_role("heading", name="store", level=1)).to_be_visible()
    expect(page).to_have_title("store · Ramet")
    visitor.send(f"/console/services/{shop.id}/environment", environment="PROD")
    expect(page.locator("#head .tag.prod")).to_be_visible()
    assert page.title() == "store · Ramet"


def test_a_service_page_updates_its_read_replicas(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    complaints = watch(page)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    expect(page.get_by_text("Read replicas are read-only standby servers")).to_be_visible()
    plane = visitor.world.runtime.plane
    replica_sets.create_set(plane, shop.project_id, shop.id, replica_sets.ReplicaSetRequest("reports", 1, 500, 2))
    expect(page.locator("#replicas .pill.ok")).to_have_text("active")
    page.get_by_role("link", name="reports").click()
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    found = visitor.named("shop").replica_sets[0]
    replica_sets.delete_set(plane, shop.project_id, shop.id, found.id)
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    assert [one for one in complaints if "404" not in one] == []


def test_a_page_reports_a_lost_connection_and_updates_after_reconnecting(
    visitor: Visitor, context: BrowserContext
) -> None:
    page = enter(context, visitor.link)
    expect(page.get_by_text("No services yet")).to_be_visible()
    visitor.world.runtime.console.close()
    expect(page.locator("#offline")).to_be_visible()
    plane = visitor.world.runtime.plane
    create_service(plane, visitor.world.project.id, CreateRequest("elsewhere"))
    expect(page.get_by_role("link", name="elsewhere", exact=True)).to_be_visible()


def test_a_page_whose_session_has_ended_leads_to_signing_in(visitor: Visitor, context: BrowserContext) -> None:
    page = enter(context, visitor.link)
    page.goto(visitor.origin + "/console/lineage")
    sessions = visitor.world.runtime.console.context.sessions
    token = next(cookie["value"] for cookie in context.cookies() if cookie["name"] == SESSION)
    session = sessions.find(token, utc_now())
    assert session is not None
    with page.expect_request("**/console/events*"):
        page.reload()
    sessions.end(session)
    create_service(visitor.world.runtime.plane, visitor.world.project.id, CreateRequest("elsewhere"))
    page.wait_for_url("**/console/sign-in?next=/console/lineage&ended=yes")


def test_times_are_local_with_utc_on_hover(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    created = page.locator("#facts time[data-style=full]").last
    local = shop.created_at + timedelta(hours=5, minutes=30)
    expect(created).to_have_text(local.strftime("%Y-%m-%d %H:%M:%S"))
    expect(created).to_have_attribute("title", re.compile(shop.created_at.strftime(r"%Y-%m-%d %H:%M:%S\.\d{6} UTC")))


def test_reading_and_forking_work_without_scripts(visitor: Visitor, browser: Browser) -> None:
    make_family(visitor)
    context = browser.new_context(java_script_enabled=False)
    page = enter(context, visitor.link)
    page.get_by_role("link", name="shop", exact=True).first.click()
    expect(page.get_by_role("heading", name="Restore window")).to_be_visible()
    page.get_by_role("link", name="Fork", exact=True).first.click()
    page.get_by_label("Point in time").check()
    expect(page.get_by_label("Position in the restore window")).to_be_hidden()
    expect(page.locator("[data-step]").first).to_be_hidden()
    page.get_by_label("Target time").fill(utc_now().isoformat().replace("+00:00", "Z"))
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("Password (shown only once)")).to_be_visible()
    page.get_by_role("link", name="Lineage").click()
    for name in ("shop", "preview", "nightly", "shop-fork"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    context.close()


def test_the_search_filters_services_while_the_user_types(visitor: Visitor, context: BrowserContext) -> None:
    make_family(visitor)
    page = enter(context, visitor.link)
    page.get_by_label("Search services").fill("paused")
    expect(page.locator("#listing .name")).to_have_text(["preview"])
    assert page.url.endswith("?q=paused")


def test_a_search_takes_the_place_of_a_refresh_of_the_list(visitor: Visitor, context: BrowserContext) -> None:
    """Otherwise the answer to the refresh puts another list in place of the one that the search is to replace."""
    make_family(visitor)
    page = enter(context, visitor.link)
    refresh = re.compile(r"\?q=&number=")
    page.route(refresh, lambda _: None, times=1)  # the first one is never answered
    page.wait_for_event("request", lambda request: refresh.search(request.url) is not None)
    with page.expect_event("requestfailed"):
        page.get_by_label("Search services").fill("paused")
    expect(page.locator("#listing .name")).to_have_text(["preview"])


def test_details_stay_open_when_something_changes(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    page.locator("#snapshots summary").click()
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, name="store")
    expect(page.get_by_role("heading", name="store", level=1)).to_be_visible()
    expect(page.locator("#snapshots")).to_have_attribute("open", "")


def test_the_list_shows_at_every_width_whether_a_restore_was_verified(
    visitor: Visitor, context: BrowserContext
) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, drill_failure="It stopped elsewhere.")
    page = enter(context, visitor.link)
    for width in (1280, 1024, 768, 360):
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.locator("#listing .proof .pill.bad")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_of_a_service_deleted_elsewhere_says_so(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    expect(page.locator("#head .pill.ok")).to_have_text("READY")
    delete_service(visitor.world.runtime.plane, shop.project_id, shop.id)
    expect(page.get_by_text("This service has been deleted.")).to_be_visible()


def test_the_page_after_a_fork_form_reports_a_failed_fork(
    visitor: Visitor, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, undone = Event(), Event()
    destroy = visitor.world.backend.servers.destroy

    def refuse(*_: object, **__: object) -> None:
        held.wait(20)
        raise Failed("NO_BLOCKS", "The disk has no room for a fork")

    def undo(service_id: str) -> None:
        undone.wait(20)
        destroy(service_id)

    visitor.sign_in()
    shop = visitor.ready("shop")
    monkeypatch.setattr(visitor.world.backend.restore, "capture", refuse)
    monkeypatch.setattr(visitor.world.backend.servers, "destroy", undo)
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork")
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("Password (shown only once)")).to_be_visible()
    held.set()
    expect(page.locator("#progress")).to_contain_text("The disk has no room for a fork")
    undone.set()
    expect(page.get_by_text("Creation failed. The disk has no room for a fork")).to_be_visible()
    expect(page.get_by_text("shop is unchanged")).to_be_visible()
    expect(page.get_by_role("link", name="Fork shop again")).to_be_visible()
    expect(page.get_by_text("is being created")).to_have_count(0)
    expect(page.get_by_text("Password (shown only once)")).to_have_count(0)


def test_the_confirmation_of_a_change_is_shown_once(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/password")
    page.get_by_label("New password").fill("correct horse")
    page.get_by_role("button", name="Reset password").click()
    expect(page.get_by_text("The password of tsdbadmin has been changed")).to_be_visible()
    page.wait_for_url(f"**/console/services/{shop.id}")
    page.reload()
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    expect(page.get_by_text("The password of tsdbadmin has been changed")).to_have_count(0)


def test_a_double_click_sends_a_form_once(visitor: Visitor, context: BrowserContext) -> None:
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/keys")
    page.evaluate("sent = 0; addEventListener('submit', (event) => { event.preventDefault(); sent += 1; })")
    page.get_by_label("Name").first.fill("ci")
    page.get_by_role("button", name="Make key").dblclick()
    assert page.evaluate("sent") == 1
    page.get_by_role("button", name="Make key").click()
    assert page.evaluate("sent") == 2


def test_deleting_a_service_requires_its_name(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    page.get_by_role("link", name="Delete…").click()
    confirmation = page.get_by_label("Type shop to confirm")
    confirmation.fill("shpo")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("Type 'shop' to confirm")).to_be_visible()
    expect(confirmation).to_be_focused()
    confirmation.fill("shop")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_text("No services yet")).to_be_visible()
