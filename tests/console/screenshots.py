"""Pictures of the console for the README and the docs, from a live project with real servers and real writes.

Run by script/screenshots. It takes about two minutes and leaves nothing behind but docs/images.
"""

import re
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Literal

import psycopg
from playwright._impl._api_structures import SetCookieParam
from playwright.sync_api import Browser, BrowserContext, Page, expect

from harness.instance import running_instance
from ramet.cli.connection import connection_string
from ramet.client import Client
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from tests.console.browsers import CHROMIUM, MISSING, open_browser

_IMAGES = Path(__file__).parents[2] / "docs" / "images"
_LOAD_SECONDS = 50
_ROWS_A_SECOND = (200, 900, 4000, 9000, 2500, 600, 300, 6000, 12000, 3000)
_HEIGHT = 860
_LEAST_HEIGHT = 400
_Look = tuple[str, int, Literal["light", "dark"]]
_LOOKS: tuple[_Look, ...] = (("", 1280, "light"), ("-dark", 1280, "dark"), ("-narrow", 360, "light"))


def _write(uri: str, ended: threading.Event) -> None:
    """Write for a while, sometimes more and sometimes less, as people do."""
    with psycopg.connect(uri, autocommit=True) as client:
        client.execute("CREATE TABLE purchase (at timestamptz DEFAULT now(), goods text)")
        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < _LOAD_SECONDS:
            rows = _ROWS_A_SECOND[int(elapsed / _LOAD_SECONDS * len(_ROWS_A_SECOND))] // 4
            client.execute("INSERT INTO purchase (goods) SELECT repeat('x', 200) FROM generate_series(1, %s)", [rows])
            ended.wait(0.25)


def _populate(ramet: Client) -> str:
    """Make a family of services; return the id of its eldest."""
    made = ramet.create_service("shop")
    ramet.wait_ready(made.service_id, 120)
    uri = connection_string(made.endpoint, str(made.initial_password))
    ended = threading.Event()
    writer = threading.Thread(target=_write, args=(uri, ended), daemon=True)
    writer.start()
    writer.join(_LOAD_SECONDS / 3)
    preview = ramet.fork_service(made.service_id, strategy=ForkStrategy.NOW, name="preview-142")
    writer.join(_LOAD_SECONDS / 3)
    nightly = ramet.fork_service(made.service_id, strategy=ForkStrategy.LAST_SNAPSHOT, name="nightly-tests")
    writer.join()
    restore_time = ramet.get_service(made.service_id).created + timedelta(seconds=_LOAD_SECONDS * 0.6)
    rescue = ramet.fork_service(
        made.service_id, strategy=ForkStrategy.PITR, name="before-the-delete", target_time=restore_time.isoformat()
    )
    for service in (preview, nightly, rescue):
        ramet.wait_ready(service.service_id, 120)
    second = ramet.fork_service(preview.service_id, strategy=ForkStrategy.NOW, name="preview-142-retry")
    ramet.wait_ready(second.service_id, 120)
    ramet.create_replica_set(made.service_id, "reports", nodes=2, cpu_millis=500, memory_gbs=2)
    ramet.take_snapshot(made.service_id, "before the migration")
    ramet.stop_service(nightly.service_id)
    ramet.set_environment(made.service_id, Environment.PROD)
    return made.service_id


def _context(browser: Browser, width: int, scheme: Literal["light", "dark"]) -> BrowserContext:
    return browser.new_context(
        viewport={"width": width, "height": _HEIGHT},
        color_scheme=scheme,
        device_scale_factor=1.5,
        reduced_motion="reduce",
    )


def _shoot(page: Page, name: str, *, whole: bool = True) -> None:
    width = page.evaluate("window.innerWidth")
    page.set_viewport_size({"width": width, "height": _LEAST_HEIGHT if whole else _HEIGHT})
    page.screenshot(path=_IMAGES / f"{name}.png", full_page=whole)
    print(f"  docs/images/{name}.png")


def _tour(page: Page, shop: str, suffix: str) -> None:
    """Take the pictures of the main pages."""
    origin = page.url.split("/console")[0]
    expect(page.locator("tr", has_text="preview-142-retry").locator(".pill.ok")).to_be_visible()
    expect(page.locator("tr", has_text="nightly-tests").locator(".pill.off")).to_be_visible()
    expect(page.locator("#listing td.number", has_text="–")).to_have_count(0)
    _shoot(page, f"console-services{suffix}")
    page.goto(f"{origin}/console/lineage")
    _shoot(page, f"console-lineage{suffix}")
    page.goto(f"{origin}/console/services/{shop}")
    expect(page.locator("#metrics")).to_be_visible()
    expect(page.locator("#logs")).to_be_visible()
    expect(page.locator("#replicas .pill.ok")).to_be_visible()
    _shoot(page, f"console-service{suffix}", whole=False)
    page.goto(f"{origin}/console/?q=before-the-delete")
    page.get_by_role("link", name="before-the-delete", exact=True).click()
    page.get_by_role("link", name="Full report").click()
    _shoot(page, f"console-report{suffix}")
    page.goto(f"{origin}/console/services/{shop}/fork?strategy=PITR")
    expect(page.locator("#plan")).to_contain_text("READY in about")
    before = page.locator("#plan").inner_text()
    page.get_by_label("Position in the restore window").evaluate(
        "one => { one.value = Number(one.min) + 0.62 * (one.max - one.min);"
        " for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true})); }"
    )
    expect(page.locator("#plan")).not_to_have_text(before, use_inner_text=True)
    _shoot(page, f"console-fork{suffix}")


def main() -> int:
    """Make all pictures."""
    if CHROMIUM is None:
        print(f"screenshots: {MISSING}", file=sys.stderr)
        return 1
    _IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        running_instance(RAMET_SNAPSHOT_SECONDS="6") as host,
        open_browser() as browser,
        host.client() as ramet,
    ):
        expect.set_options(timeout=60_000)
        cookies: list[SetCookieParam] = []
        print("Making a project with a family of services…")
        shop = _populate(ramet)
        found = re.search(r"console\s+(http\S+)", host.log)
        if found is None:
            raise AssertionError("BUG: ramet up prints a link")
        for suffix, width, scheme in _LOOKS:
            context = _context(browser, width, scheme)
            context.add_cookies(cookies)
            page = context.new_page()
            page.goto(found[1] if not cookies else f"{found[1].split('/console')[0]}/console/")
            page.wait_for_url("**/console/")
            cookies = [{"name": one["name"], "value": one["value"], "url": page.url} for one in context.cookies()]
            _tour(page, shop, suffix)
            context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
