"""What holds for every page in a real browser, over the memory backend: it is accessible, fits the screen, is light."""

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from ramet.console.pages import logs
from ramet.control.plane import utc_now
from ramet.model.logs import LogEntry, LogPage
from tests.console.browsers import enter, watch
from tests.console.visitor import Visitor, make_family

_AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_ALL = {"type": "tag", "values": _TAGS}
_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# What has passed is left out at once: to describe it takes axe three times as long as to look.
_ASK = "async rules => (await axe.run({runOnly: rules, resultTypes: ['violations']})).violations"
_DESK, _PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=360, height=800)
# An image without a text, wider than any page, and words that only a light page lets one read.
_SPOIL = """() => {
    document.querySelector('main').insertAdjacentHTML('beforeend', '<img src="/nothing.png"><p>Words</p>');
    Object.assign(document.querySelector('main > img').style, {width: '2000px', maxWidth: 'none'});
    document.querySelector('main > p').style.color = '#333';
}"""


def _violations(page: Page, rules: Any) -> list[str]:
    found: Any = page.evaluate(_ASK, rules)
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]


def _faults_in_each_look(page: Page) -> list[str]:
    """Check an open page in light colours, in dark ones, which change nothing but colours, and on a phone."""
    page.evaluate(_AXE)
    found = [f"wide: {fault}" for fault in [*_violations(page, _ALL), *_overflow(page)]]
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {fault}" for fault in _violations(page, _COLOURS)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(_PHONE)
    found += [f"narrow: {fault}" for fault in [*_violations(page, _ALL), *_overflow(page)]]
    page.set_viewport_size(_DESK)
    return found


def _overflow(page: Page) -> list[str]:
    width, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"overflow: {width} > {room}"] if width > room else []


def _paths(visitor: Visitor) -> list[str]:
    base = f"/console/services/{visitor.named('shop').id}"
    prod = f"/console/services/{visitor.named('nightly').id}"
    verbs = ("", "/fork", "/fork?strategy=PITR", "/rename", "/resize", "/environment", "/password", "/metrics", "/logs")
    more = ("/window", "/add-replicas", "/snapshots", "/optimize", "/restores", "/restores?strategy=NOW", "/checkpoint")
    inside = ("/insight", "/settings", "/logins", "/sql", "/tables")
    preview = f"/console/services/{visitor.named('preview').id}"
    replicas = f"{base}/replicas/{visitor.named('shop').replica_sets[0].id}"
    return [
        "/console/",
        "/console/new",
        "/console/lineage",
        "/console/overview",
        "/console/notifications",
        "/console/help",
        *(base + v for v in (*verbs, *more, *inside)),
        *(replicas + v for v in ("", "/resize", "/delete")),
        f"{prod}/report",
        f"{prod}/delete",
        f"{prod}/window",
        *(prod + v for v in ("", "/restores?strategy=LAST_SNAPSHOT", "/reset", "/rewind")),
        *(preview + v for v in ("/reset", "/restores", "/compare")),
    ]


@pytest.mark.slow
def test_no_page_has_an_accessibility_violation_or_overflows(visitor: Visitor, browser: Browser) -> None:
    make_family(visitor)
    context = browser.new_context(color_scheme="light", viewport=_DESK, reduced_motion="reduce")
    page = enter(context, visitor.link)
    complaints = watch(page)
    found = {}
    for path in (*_paths(visitor), "/console/sign-in"):
        page.goto(visitor.origin + path)
        expect(page.locator("main")).to_be_visible()
        if faults := _faults_in_each_look(page):
            found[path] = faults
    page.evaluate(_SPOIL)
    spoilt = _faults_in_each_look(page)
    for fault in ("wide: image-alt", "wide: overflow", "dark: color-contrast", "narrow: image-alt", "narrow: overflow"):
        assert any(one.startswith(fault) for one in spoilt), f"{fault} is not found where it is"
    assert not any(one.startswith("wide: color-contrast") for one in spoilt), "the light page looks dark"
    assert found == {}
    assert [complaint for complaint in complaints if "404" not in complaint] == []
    context.close()


def _weight(page: Page, address: str) -> tuple[int, list[str]]:
    """Open a page with nothing cached; return the bytes of all that it fetches, unpacked, and from where."""
    fetched: dict[str, int] = {}
    paths: dict[str, str] = {}
    tool = page.context.new_cdp_session(page)
    tool.send("Network.enable")
    tool.send("Network.setCacheDisabled", {"cacheDisabled": True})
    tool.on("Network.requestWillBeSent", lambda event: paths.update({event["requestId"]: event["request"]["url"]}))

    def count(event: Any) -> None:
        fetched[event["requestId"]] = fetched.get(event["requestId"], 0) + event["dataLength"]

    tool.on("Network.dataReceived", count)
    with page.expect_response("**/console/events*"):
        page.goto(address)
    if page.locator(".lazy").count():
        expect(page.locator(".lazy")).to_have_count(0)
    expect(page.locator(".htmx-request")).to_have_count(0)
    tool.detach()
    return sum(fetched.values()), sorted(path for path in paths.values() if "/static/" not in path)


@pytest.mark.slow
def test_no_page_weighs_more_than_150_kilobytes_or_is_fetched_twice(
    visitor: Visitor, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_family(visitor)
    lines = [LogEntry(utc_now(), "LOG", "one of the lines that a busy server writes " * 3) for _ in range(500)]
    monkeypatch.setattr(logs, "read_logs", lambda *_: LogPage(lines[: _[-1].limit], None))
    page = enter(context, visitor.link)
    expect(page.locator("#listing .name")).to_have_count(3)
    for path in _paths(visitor):
        if path.endswith("/logs"):
            continue  # asked for by itself, it shows more
        for _ in range(4):
            weight, fetched = _weight(page, visitor.origin + path)
            if len(set(fetched)) == len(fetched):
                break  # else something has just changed, and the page shows it
        assert 60_000 < weight < 150_000, (path, weight)
        assert len(set(fetched)) == len(fetched), (path, fetched)
