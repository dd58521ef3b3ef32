"""`ramet console`, and the link that it prints."""

import httpx
import pytest

from harness.ports import free_port
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_the_printed_link_signs_in_once(terminal: Terminal, world: World) -> None:
    said = terminal.ramet("console")
    assert said.code == 0, said.err
    link = said.out.strip()
    assert link.startswith(world.base_url.removesuffix("/public/api/v1") + "/console/enter/")
    with httpx.Client() as browser:
        assert browser.get(link).status_code == 200
        assert "Services" in browser.get(link.split("/enter/")[0] + "/").text
        assert browser.get(link).status_code == 410
    assert terminal.ramet("console").out.strip() != link


def test_open_leads_to_the_page_of_a_service_and_prints_the_link_where_there_is_no_browser(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    made = terminal.made("service", "create", "opened")
    said = terminal.ramet("open", "opened")
    assert said.code == 0, said.err
    with httpx.Client() as browser:
        page = browser.get(said.out.strip())
    assert f"/console/services/{made['service_id']}" in page.text
    opened: list[str] = []

    def open_link(link: str) -> bool:
        opened.append(link)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", open_link)
    said = terminal.ramet("open")
    assert (said.code, said.out, "/console/enter/" in opened[0]) == (0, "", True)
    assert terminal.ramet("open", "absent").code == 6


def test_a_link_opens_no_page_elsewhere(terminal: Terminal) -> None:
    link = terminal.ramet("console").out.strip()
    with httpx.Client() as browser:
        page = browser.get(link, params={"next": "//evil.example/console/"})
    assert (page.status_code, "evil.example" in page.text) == (200, False)


def test_a_wrong_key_gets_no_link(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_SECRET_KEY", "wrong")
    refused = terminal.ramet("console")
    assert (refused.code, refused.out) == (4, "")
    assert "secret is wrong" in refused.err


def test_an_unreachable_server_is_reported(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_BASE_URL", f"http://127.0.0.1:{free_port()}/public/api/v1")
    refused = terminal.ramet("console")
    assert refused.code == 1
    assert "Start one with 'ramet up'" in refused.err


def test_an_answer_that_is_not_from_a_console_is_reported(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    html_for_everything = world.base_url.replace("/public/api/v1", "/console/sign-in?")
    monkeypatch.setenv("RAMET_BASE_URL", html_for_everything)
    refused = terminal.ramet("console")
    assert refused.code != 0
    assert "is not from a console" in refused.err
