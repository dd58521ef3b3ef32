"""Which server and key a command uses."""

import json
import stat
from pathlib import Path

import pytest

from ramet.cli.user_files.credentials import Credentials, find_credentials, read_credentials, write_credentials
from ramet.errors import Invalid, Unauthorized
from tests.cli.terminal import Terminal
from tests.cli.world import World

FILE = Credentials("http://file/public/api/v1", "p1", "RKFILE", "secret-of-file")
OTHER = Credentials("http://other/public/api/v1", "p2", "RKOTHER", "secret-of-other")


def test_each_variable_overrides_its_value_in_the_users_own_file(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "RAMET_PROJECT_ID": "p2"}
    write_credentials(tmp_path / "ramet" / "credentials.json", FILE)
    assert find_credentials(None, environ) == Credentials(FILE.base_url, "p2", FILE.public_key, FILE.secret_key)


def test_half_a_key_of_the_environment_is_not_mixed_with_the_saved_one(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    write_credentials(tmp_path / "ramet" / "credentials.json", FILE)
    for given, missing in (("RAMET_PUBLIC_KEY", "RAMET_SECRET_KEY"), ("RAMET_SECRET_KEY", "RAMET_PUBLIC_KEY")):
        with pytest.raises(Invalid, match=f"{given} is set, and {missing} is not"):
            find_credentials(None, {**home, given: "other"})
    assert find_credentials(None, {**home, "RAMET_PUBLIC_KEY": FILE.public_key}) == FILE
    assert find_credentials(None, {**home, "RAMET_PUBLIC_KEY": "a", "RAMET_SECRET_KEY": "b"}).secret_key == "b"


def test_a_named_file_overrides_everything(tmp_path: Path) -> None:
    write_credentials(tmp_path / "ci.json", FILE)
    assert find_credentials(tmp_path / "ci.json", {"RAMET_PROJECT_ID": "p2"}) == FILE
    named = {"RAMET_CREDENTIALS_FILE": str(tmp_path / "ci.json")}
    assert find_credentials(None, {**named, "RAMET_PROJECT_ID": "p2"}) == FILE
    write_credentials(tmp_path / "other.json", OTHER)
    assert find_credentials(tmp_path / "other.json", named) == OTHER


def test_a_user_without_a_home_directory_has_the_credentials_of_the_environment(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert terminal.ramet("service", "list").code == 0
    monkeypatch.delenv("RAMET_SECRET_KEY")
    said = terminal.ramet("service", "list")
    assert (said.code, "the environment has secret_key" in said.err) == (4, True), said.err


def test_missing_credentials_are_named(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized, match="secret_key"):
        find_credentials(None, {"XDG_CONFIG_HOME": str(tmp_path), "RAMET_BASE_URL": "http://x"})
    with pytest.raises(Unauthorized, match=r"ci\.json"):
        find_credentials(tmp_path / "ci.json", {})


@pytest.mark.parametrize("content", ["", "[]", '{"base_url": 1}', "\0"])
def test_a_malformed_file_is_refused_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(Invalid, match=r"broken\.json"):
        find_credentials(path, {})


def test_only_the_user_can_read_credentials_and_repr_hides_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "credentials.json"
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(0o644)
    write_credentials(path, FILE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "base_url": FILE.base_url,
        "project_id": "p1",
        "public_key": "RKFILE",
        "secret_key": "secret-of-file",
    }
    assert read_credentials(path) == FILE
    assert "secret-of-file" not in repr(FILE)


def test_without_credentials_a_command_exits_with_4_and_says_how_to_get_them(stranger: Terminal) -> None:
    said = stranger.ramet("service", "list")
    assert said.code == 4
    assert "ramet up" in said.err


def test_keys_are_made_where_the_named_file_says_and_nowhere_else(
    stranger: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = stranger.home / "ci.json"
    monkeypatch.setenv("RAMET_CREDENTIALS_FILE", str(named))
    missing = stranger.ramet("key", "list")
    assert (missing.code, f"There is no credentials file at {named}" in missing.err) == (4, True)
    write_credentials(named, Credentials(world.base_url, world.project.id, world.public_key, world.secret.reveal()))
    assert world.public_key in stranger.ramet("key", "list").out
    assert world.base_url.partition("://")[2].partition("/")[0] in stranger.ramet().out


def test_a_wrong_secret_exits_with_4_and_another_project_with_5(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    monkeypatch.setenv("RAMET_PROJECT_ID", "p123456789")
    assert terminal.ramet("service", "list").code == 5
    monkeypatch.setenv("RAMET_SECRET_KEY", "wrong")
    assert terminal.ramet("service", "list").code == 4


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/public/api/v1", "nonsense", "http://[::1", "ftp://x", "http://"]
)
def test_an_address_without_a_server_is_named(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAMET_BASE_URL", address)
    said = terminal.ramet("service", "list")
    assert said.code in (1, 3)
    assert address in said.err
    assert "BUG" not in said.err
