"""`ramet config`: the values that commands use, where they come from, and how they are changed."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.cli.user_files.credentials import Credentials, read_saved, write_credentials
from tests.cli.terminal import Terminal
from tests.cli.world import World


def save(user: Terminal, world: World) -> None:
    for name, value in (
        ("base_url", world.base_url),
        ("project_id", world.project.id),
        ("public_key", world.public_key),
    ):
        assert user.ramet("config", "set", name, value).code == 0
    assert user.ramet("config", "set", "secret_key", typed=f"{world.secret.reveal()}\n").code == 0


def test_saved_values_open_the_project_and_only_the_user_can_read_them(stranger: Terminal, world: World) -> None:
    save(stranger, world)
    assert stranger.ramet("service", "list").code == 0
    path = stranger.config / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["project_id"] == world.project.id


def test_two_values_that_are_saved_at_once_are_both_saved(stranger: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**os.environ, "RAMET_PUBLIC_KEY": ""}
    others: list[subprocess.Popen[bytes]] = []

    def read_slowly(path: Path) -> dict[str, str]:
        found = read_saved(path)
        command = [sys.executable, "-m", "ramet", "config", "set", "public_key", "RKOTHER"]
        others.append(subprocess.Popen(command, env=environ))
        eventually(lambda: others[0].poll() is not None or waits_for_a_lock(others[0].pid))
        return found

    monkeypatch.setattr("ramet.cli.commands.config.read_saved", read_slowly)
    assert stranger.ramet("config", "set", "project_id", "rp1pz7uyae").code == 0
    assert others[0].wait(60) == 0
    saved = read_saved(stranger.config / "credentials.json")
    assert saved == {"project_id": "rp1pz7uyae", "public_key": "RKOTHER"}


def waits_for_a_lock(pid: int) -> bool:
    """Tell whether a process waits for a lock on a file that another process has."""
    return any(" -> " in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_the_secret_is_never_shown(stranger: Terminal, world: World) -> None:
    save(stranger, world)
    for words in ([], ["-o", "json"], ["-o", "yaml"]):
        said = stranger.ramet("config", "show", *words)
        assert world.public_key in said.out
        assert world.secret.reveal() not in said.out + said.err
    assert stranger.made("config", "show")["secret_key"]["value"] == "***"


def test_the_origin_of_a_value_is_shown(stranger: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger.ramet("config", "set", "project_id", "rp1pz7uyae")
    monkeypatch.setenv("RAMET_PUBLIC_KEY", "RKENV")
    shown = stranger.made("config", "show")
    assert shown["project_id"] == {"value": "rp1pz7uyae", "from": str(stranger.config / "credentials.json")}
    assert shown["public_key"] == {"value": "RKENV", "from": "RAMET_PUBLIC_KEY"}
    assert shown["base_url"] == {"value": None, "from": "not set"}
    assert shown["output"] == {"value": "table", "from": "default"}
    said = stranger.ramet("config", "set", "public_key", "RKFILE")
    assert "RAMET_PUBLIC_KEY is set, and overrides it" in said.err


def test_a_named_file_overrides_all_other_values(
    stranger: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = stranger.home / "ci.json"
    credentials = Credentials("http://ci.example", "rp1pz7uyae", "RKCI", "hidden-of-ci")
    write_credentials(named, credentials)
    save(stranger, world)
    monkeypatch.setenv("RAMET_PUBLIC_KEY", "RKENV")
    for words in (["--credentials-file", str(named)], []):
        if not words:
            monkeypatch.setenv("RAMET_CREDENTIALS_FILE", str(named))
        shown = stranger.made("config", "show", *words)
        assert shown["public_key"] == {"value": "RKCI", "from": str(named)}
        assert shown["base_url"] == {"value": "http://ci.example/public/api/v1", "from": str(named)}
        assert shown["secret_key"] == {"value": "***", "from": str(named)}
    assert "RAMET_CREDENTIALS_FILE is set" in stranger.ramet("config", "set", "public_key", "RKFILE").err


def test_the_path_of_the_interface_is_optional_in_a_variable(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMET_BASE_URL", world.base_url.removesuffix("/public/api/v1"))
    assert terminal.ramet("service", "list").code == 0
    assert terminal.made("config", "show")["base_url"]["value"] == world.base_url


def test_an_html_page_is_not_printed_as_an_error(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMET_BASE_URL", world.base_url.removesuffix("/public/api/v1") + "/console")
    said = terminal.ramet("service", "list")
    assert said.code != 0
    assert "<" not in said.err
    assert "check the address" in said.err


def test_the_path_of_the_interface_is_optional(stranger: Terminal) -> None:
    stranger.ramet("config", "set", "base_url", "http://db.example.com:8080/")
    assert stranger.made("config", "show")["base_url"]["value"] == "http://db.example.com:8080/public/api/v1"
    stranger.ramet("config", "set", "base_url", "https://example.com/ramet/v1")
    assert stranger.made("config", "show")["base_url"]["value"] == "https://example.com/ramet/v1"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("base_url", "db.example.com", "'db.example.com' is not the URL of a Ramet server"),
        ("project_id", "P", "project_id must be ten letters a-z and digits (got 'P')"),
        ("public_key", "", "public_key must be letters and digits (got '')"),
        ("output", "xml", "output must be one of table, json, yaml (got 'xml')"),
        ("colour", "red", "'colour'"),
    ],
)
def test_an_invalid_value_is_refused_and_not_saved(stranger: Terminal, name: str, value: str, message: str) -> None:
    said = stranger.ramet("config", "set", name, value)
    assert (said.code, message in said.err) == (3, True)
    assert not stranger.config.exists()


def test_a_secret_on_the_command_line_is_refused(stranger: Terminal) -> None:
    assert stranger.ramet("config", "set", "secret_key", "hunter2").code == 3
    said = stranger.ramet("config", "set", "secret_key", typed="two words\n")
    assert (said.code, "two words" in said.err) == (3, False)
    assert not stranger.config.exists()


def test_the_saved_output_format_is_the_default(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.ramet("config", "set", "output", "json").code == 0
    assert isinstance(terminal.ramet("service", "list").data, list)
    assert terminal.ramet("service", "list", "-o", "table").out.startswith("service")
    monkeypatch.setenv("RAMET_OUTPUT", "yaml")
    assert terminal.ramet("config", "show").out.startswith("base_url:")
    monkeypatch.setenv("RAMET_OUTPUT", "xml")
    assert terminal.ramet("service", "list").code == 3
    monkeypatch.delenv("RAMET_OUTPUT")
    (terminal.config / "preferences.json").write_text("torn")
    assert "preferences.json" in terminal.ramet("service", "list").err
    assert terminal.ramet("service", "list", "--help").code == 0


def test_a_preferred_format_does_not_forbid_what_goes_on(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    terminal.made("service", "create", "watched")
    assert terminal.ramet("config", "set", "output", "json").code == 0
    monkeypatch.setattr("ramet.cli.commands.services.time.sleep", interrupted)
    for words, code in ((("ls", "--watch"), 0), (("service", "logs", "watched", "--follow"), 130)):
        said = terminal.ramet(*words)
        assert (said.code, "[" in said.out) == (code, False)
        assert terminal.ramet(*words, "-o", "json").code == 3
