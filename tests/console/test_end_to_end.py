"""The console with real servers: create, load, fork at a point in time, change it with SQL, read the report, delete."""

import os
import re
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from harness.instance import Instance, connect, running_instance
from ramet.client import ForkStrategy
from tests.console.browsers import watch


@pytest.fixture(scope="module")
def host() -> Iterator[Instance]:
    with running_instance() as made:
        yield made


@pytest.fixture(scope="module")
def signed_in(host: Instance, browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(timezone_id="America/New_York")
    page = context.new_page()
    page.goto(_link(host))
    page.wait_for_url("**/console/")
    yield context
    assert host.terminate() == os.EX_OK, "while a page is open"
    context.close()


def _link(host: Instance) -> str:
    assert re.search(r"console\s+http\S+/console$", host.log, re.MULTILINE), "no link in a log"
    said = host.run("console")
    assert "/console/enter/" in said.stdout, said.stderr
    return said.stdout.strip()


def _home(context: BrowserContext) -> str:
    return context.pages[0].url


def _uri(page: Page) -> str:
    expect(page.locator("#progress .pill.ok")).to_have_text("READY")
    return str(page.locator("#uri").text_content())


def _run(page: Page, statement: str, said: str) -> None:
    page.locator("#sql").fill(statement)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main")).to_contain_text(said)


@pytest.mark.slow
def test_create_load_fork_at_a_point_in_time_and_delete_in_a_browser(signed_in: BrowserContext) -> None:
    page = signed_in.new_page()
    complaints = watch(page)
    page.goto(_home(signed_in))
    page.get_by_role("link", name="New service").first.click()
    page.get_by_label("Name").fill("shop")
    page.get_by_role("button", name="Create").click()
    shop = _uri(page)

    with psycopg.connect(shop, autocommit=True) as client:
        client.execute("CREATE TABLE purchase (number int PRIMARY KEY)")
        client.execute("INSERT INTO purchase SELECT generate_series(1, 10)")
        restore_time = client.execute("SELECT clock_timestamp()").fetchone()
        client.execute("DELETE FROM purchase WHERE number > 3")
    assert restore_time is not None

    page.get_by_role("link", name="Open shop").click()
    page.get_by_role("link", name="Point-in-time fork").click()
    page.get_by_label("Target time").fill(restore_time[0].isoformat())
    page.get_by_label("Target time").press("Tab")
    expect(page.locator("#plan")).to_contain_text("READY in about")
    page.get_by_role("button", name="Fork", exact=True).click()
    fork = _uri(page)
    with psycopg.connect(fork) as client:
        assert client.execute("SELECT count(*) FROM purchase").fetchone() == (10,)
    with psycopg.connect(shop) as client:
        assert client.execute("SELECT count(*) FROM purchase").fetchone() == (3,)

    page.get_by_role("link", name="Open shop-fork").click()
    page.get_by_role("link", name="Full report").click()
    story = page.locator("main")
    for text in (
        "Everything committed at or before",
        "Last transaction included",
        "First transaction left out",
        "of 1 login role",
        "READY after",
    ):
        expect(story).to_contain_text(text)
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("link", name="shop-fork").first.click()
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label("Type shop-fork to confirm").fill("shop-fork")
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.locator("#listing .name", has_text="shop")).to_have_text(["shop"])
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        psycopg.connect(fork, connect_timeout=5)
    assert complaints == []


@pytest.mark.slow
def test_a_fork_is_changed_with_sql_and_compared_in_a_browser(host: Instance, signed_in: BrowserContext) -> None:
    with host.client() as client:
        stock = client.create_service("stock")
        client.wait_ready(stock.service_id)
        fork = client.fork_service(stock.service_id, ForkStrategy.NOW, name="stock-fork")
        client.wait_ready(fork.service_id)
    page = signed_in.new_page()
    complaints = watch(page)
    page.goto(f"{_home(signed_in)}services/{fork.service_id}")
    page.get_by_role("link", name="SQL", exact=True).click()
    _run(page, "CREATE TABLE item (price numeric)", "25006")
    _run(page, "PREPARE TRANSACTION 'left behind'", "cannot be prepared")
    assert fork.endpoint is not None
    with connect(fork.endpoint.port, str(fork.initial_password)) as connection:
        assert connection.execute("SELECT * FROM pg_prepared_xacts").fetchall() == []
    page.get_by_label("Let this statement write").check()
    _run(page, "CREATE TABLE item AS SELECT 7.5 AS price", "SELECT 1 ·")
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="public.item").click()
    expect(page.locator("#rows")).to_contain_text("7.5")
    page.get_by_role("link", name="stock-fork").first.click()
    page.get_by_role("link", name="Compare the schema").click()
    expect(page.locator("main")).to_contain_text("public.item")
    assert [one for one in complaints if "422" not in one] == []
