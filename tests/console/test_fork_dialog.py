"""The fork form in a real browser: its timeline and the target time."""

import re
from datetime import UTC, datetime
from urllib.parse import quote

from playwright.sync_api import BrowserContext, expect

from tests.console.browsers import enter, watch
from tests.console.visitor import Visitor


def test_a_point_in_time_fork_needs_only_the_keyboard(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    visitor.world.backend.commit(shop.id, "kept")
    page = enter(context, visitor.link)
    complaints = watch(page)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork?strategy=PITR&span=60")
    handle = page.get_by_label("Position in the restore window")
    exact = page.get_by_label("Target time")
    handle.focus()
    latest = exact.input_value()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+05:30", latest)
    page.keyboard.press("ArrowLeft")
    expect(exact).not_to_have_value(latest)
    expect(page.locator("#plan")).to_contain_text("READY in about")
    page.keyboard.press("End")
    expect(exact).to_have_value(latest)
    page.get_by_role("button", name="Fork", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#progress .pill.ok")).to_have_text("READY")
    fork = visitor.named("shop-fork")
    assert fork.origin is not None
    assert fork.origin.target_time == latest
    assert visitor.world.backend.values(fork.id) == ["kept"]
    assert complaints == []


def test_three_clicks_fork_at_a_time_on_the_timeline(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    visitor.world.backend.commit(shop.id, "kept")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}")
    line = page.locator("a.pick")
    first, last = (int(str(line.get_attribute(f"data-{end}"))) for end in ("first", "last"))
    line.click()  # in its middle
    page.locator("#here").get_by_role("link", name="Fork", exact=True).click()
    exact = page.get_by_label("Target time")
    expect(exact).to_have_value(re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+05:30"))
    chosen = datetime.fromisoformat(exact.input_value()).timestamp() * 1000
    latest = datetime.now(UTC).timestamp() * 1000  # the timeline may have been redrawn before the click
    early, late = ((first + end) / 2 for end in (last, latest))
    tolerance = 0.02 * (latest - first) + 1
    assert early - tolerance <= chosen <= late + tolerance
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.locator("#progress .pill.ok")).to_have_text("READY")
    origin = visitor.named("shop-fork").origin
    assert origin is not None
    assert datetime.fromisoformat(str(origin.target_time)).timestamp() * 1000 == chosen


def test_an_unknown_strategy_causes_no_script_error(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    complaints = watch(page)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork?strategy=XX")
    expect(page.get_by_label("Now")).to_be_checked()
    expect(page.locator("#plan")).to_contain_text("READY in about")
    assert complaints == []


def test_moving_the_handle_selects_point_in_time_and_typed_times_are_local(
    visitor: Visitor, context: BrowserContext
) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork")
    expect(page.get_by_label("Now")).to_be_checked()
    page.get_by_label("Position in the restore window").focus()
    page.keyboard.press("Home")
    expect(page.get_by_label("Point in time")).to_be_checked()
    exact = page.get_by_label("Target time")
    for typed, understood in (
        ("2026-02-03 4:05", "2026-02-03T04:05:00+05:30"),
        ("2026-02-03T14:05:06.123456", "2026-02-03T14:05:06.123456+05:30"),
        ("2026-02-03T14:05:06Z", "2026-02-03T14:05:06Z"),
        ("yesterday", "yesterday"),
    ):
        exact.fill(typed)
        exact.press("Tab")
        expect(exact).to_have_value(understood)
    expect(page.locator("#plan")).to_contain_text("yesterday")
    for nowhere in ("2026-02-30 10:00", "2026-02-03 24:30"):
        exact.fill(nowhere)
        exact.press("Tab")
        expect(exact).to_have_value(nowhere)
    exact.fill("0:00")
    exact.press("Tab")
    expect(exact).to_have_value(re.compile(r"\d{4}-\d\d-\d\dT00:00:00\+05:30"))


def test_another_period_of_the_timeline_keeps_typed_values(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork?span=60")
    page.get_by_label("Point in time").check()
    page.get_by_label("Target time").fill("2026-02-03T14:05:06.123456Z")
    page.get_by_label("Name").fill("back-then")
    page.get_by_label("Environment").select_option("PROD")
    page.get_by_role("link", name="all", exact=True).click()
    page.wait_for_url("**span=")
    expect(page.get_by_label("Point in time")).to_be_checked()
    expect(page.get_by_label("Target time")).to_have_value("2026-02-03T14:05:06.123456Z")
    expect(page.get_by_label("Name")).to_have_value("back-then")
    expect(page.get_by_label("Environment")).to_have_value("PROD")
    assert "_token" not in page.url
    assert "key=" not in page.url


def test_another_restore_point_keeps_the_target_time_and_buttons_keep_its_microseconds(
    visitor: Visitor, context: BrowserContext
) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    typed = "2026-02-03T14:05:06.123456+05:30"
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork?strategy=PITR&target_time={quote(typed)}")
    exact = page.get_by_label("Target time")
    for choice in ("Last snapshot", "Now"):
        page.get_by_label(choice).check()
        page.get_by_label("Point in time").check()
        expect(exact).to_have_value(typed)
    page.get_by_role("button", name="+1 s", exact=True).click()
    expect(exact).to_have_value("2026-02-03T14:05:07.123456+05:30")


def test_the_handle_moves_only_to_valid_times(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork?strategy=PITR")
    handle, exact = page.get_by_label("Position in the restore window"), page.get_by_label("Target time")
    latest = handle.input_value()
    for nonsense in ("2020", "1 May", "2020-02-30T00:00:00Z", "x"):
        exact.fill(nonsense)
        expect(handle).to_have_value(latest)
        expect(handle).to_have_attribute("aria-valuetext", re.compile(r"\d{4}-\d\d-\d\d \d\d:"))
    exact.fill("2020-02-03T00:00:00Z")
    expect(handle).to_have_value(str(handle.get_attribute("min")))


def test_the_preview_follows_the_form(visitor: Visitor, context: BrowserContext) -> None:
    visitor.sign_in()
    shop = visitor.ready("shop")
    page = enter(context, visitor.link)
    page.goto(f"{visitor.origin}/console/services/{shop.id}/fork")
    summary = page.locator("#plan")
    expect(summary).to_contain_text("shop-fork will be")
    name = page.get_by_label("Name")
    name.fill("")
    name.press_sequentially("tuesday")  # the field keeps the focus: no change is over
    expect(summary).to_contain_text("tuesday will be")
    page.get_by_label("Point in time").check()
    exact = page.get_by_label("Target time")
    exact.fill("")
    exact.press_sequentially("2001-02-03 4:05")
    expect(summary).to_contain_text("restore window")
    expect(exact).to_have_value("2001-02-03 4:05")
    page.get_by_label("Now").check()
    expect(summary).to_contain_text("when you submit this form")
    page.get_by_label("Size").select_option("500/2")
    expect(summary).to_contain_text("0.5 CPU")
