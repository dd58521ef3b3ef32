"""Debian's Chromium, driven by Playwright: made once for a module, with nothing kept between tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING = "needs the package chromium; script/setup installs it as root on Debian"


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


def watch(page: Page) -> list[str]:
    """Return a list that fills with what the page complains about: faults of scripts, and refused resources."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    return complaints


def hide(page: Page) -> None:
    """Let a page believe that another tab is in front of it: without a window all pages are visible."""
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { value: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )


def enter(context: BrowserContext, link: str) -> Page:
    """Open a page that is signed in by a link."""
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/console/")
    return page
