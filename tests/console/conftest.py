"""A server with the memory backend, and a browser, for one module's tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.cli.world import World, open_world
from tests.console.browsers import CHROMIUM, MISSING, open_browser
from tests.console.visitor import Visitor

_PATIENCE_MILLIS = 60_000


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as made:
        try:
            yield made
        finally:
            made.runtime.console.close()


@pytest.fixture
def visitor(world: World) -> Iterator[Visitor]:
    with Visitor(world) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(MISSING)
    expect.set_options(timeout=_PATIENCE_MILLIS)
    with open_browser() as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Asia/Kolkata")
    made.set_default_timeout(_PATIENCE_MILLIS)
    yield made
    made.close()
