"""The console with real servers: create, load, fork at a point in time, change it with SQL, read the report, delete."""

import os
import re
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from harness.instance import Instance, running_instance
from tests.console.browsers import watch


@pytest.fixture
def host() -> Iterator[Instance]:
    with running_instance() as made:
        yield made


def _link(host: Instance) -> str:
    found = re.search(r"console\s+(http\S+/console/enter/\S+)", host.log)
    assert found is not None
    return found[1]


def _uri(page: Page) -> str:
    expect(page.locator("#progress .pill.ok")).to_have_text("READY")
    return str(page.locator("#uri").text_content())


@pytest.mark.slow
def test_create_load_fork_at_a_point_in_time_and_delete_in_a_browser(host: Instance, browser: Browser) -> None:
    context = browser.new_context(timezone_id="America/New_York")
    page = context.new_page()
    complaints = watch(page)
    page.goto(_link(host))
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
    page.get_by_role("link", name="SQL", exact=True).click()
    page.locator("#sql").fill("ALTER TABLE purchase ADD price numeric")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main")).to_contain_text("25006")
    page.locator("#sql").fill("PREPARE TRANSACTION 'left behind'")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main")).to_contain_text("cannot be prepared")
    with psycopg.connect(fork) as client:
        assert client.execute("SELECT * FROM pg_prepared_xacts").fetchall() == []
    page.locator("#sql").fill("ALTER TABLE purchase ADD price numeric")
    page.get_by_label("Let this statement write").check()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("main")).to_contain_text("ALTER TABLE ·")
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="public.purchase").click()
    expect(page.locator("#rows")).to_contain_text("10")
    page.get_by_role("link", name="shop-fork").first.click()
    page.get_by_role("link", name="Compare the schema").click()
    expect(page.locator("main")).to_contain_text("+numeric")
    page.get_by_role("link", name="shop-fork").first.click()
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
    expect(page.locator("#listing .name")).to_have_text(["shop"])
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(fork, connect_timeout=5)
    assert [one for one in complaints if "422" not in one] == []
    assert host.terminate() == os.EX_OK
    context.close()
