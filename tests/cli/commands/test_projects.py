"""`ramet project` and `ramet key`, on the store of a data directory."""

import stat
from pathlib import Path

import pytest

from ramet.configured import open_store
from ramet.control.projects import Projects
from ramet.errors import Unauthorized
from ramet.model.passwords import Secret
from ramet.settings import load_settings, make_data_dir
from tests.cli.terminal import Terminal


@pytest.fixture
def admin(stranger: Terminal) -> Terminal:
    """A user on the host of a data directory that has a store."""
    settings = load_settings()
    make_data_dir(settings.data_dir)
    open_store(settings).close()
    return stranger


def test_a_project_is_created_and_listed(admin: Terminal) -> None:
    made = admin.made("project", "create", "analytics")
    assert admin.made("project", "list") == [made]
    assert made["id"] in admin.ramet("project", "list").out


def test_a_key_is_valid_until_it_is_revoked(admin: Terminal) -> None:
    project = admin.made("project", "create", "one")
    key = admin.made("key", "create", "--name", "ci")
    assert key["project_id"] == project["id"]
    assert key["base_url"].endswith("/public/api/v1")
    store = open_store(load_settings())
    projects = Projects(store)
    assert projects.authenticate(key["public_key"], Secret(key["secret_key"])).project_id == project["id"]
    assert admin.ramet("key", "revoke", key["public_key"]).code == 0
    with pytest.raises(Unauthorized):
        projects.authenticate(key["public_key"], Secret(key["secret_key"]))
    store.close()
    listed = admin.made("key", "list")
    assert [one["name"] for one in listed] == ["ci"]
    assert listed[0]["revoked"] is not None
    assert key["secret_key"] not in admin.ramet("key", "list").out


def test_a_key_is_written_to_a_file_instead_of_the_terminal(admin: Terminal, tmp_path: Path) -> None:
    admin.made("project", "create", "one")
    forker = admin.ramet("key", "create", "--role", "forker")
    assert forker.err.startswith("Error: --parent must name 1 to 100 services that a FORKER key may fork (got 0): ")
    assert "Name each of them in --parent." in forker.err
    said = admin.ramet("key", "create", "--credentials-file", str(tmp_path / "ci.json"))
    assert said.code == 0
    assert said.out == ""
    assert stat.S_IMODE((tmp_path / "ci.json").stat().st_mode) == 0o600


def test_a_key_that_cannot_be_written_to_its_file_is_shown(admin: Terminal, tmp_path: Path) -> None:
    project = admin.made("project", "create", "one")
    (tmp_path / "file").touch()
    below = ("--credentials-file", str(tmp_path / "file" / "ci.json"))
    said = admin.ramet("key", "create", *below)
    (key,) = admin.made("key", "list")
    rotated = admin.ramet("key", "rotate", key["public_key"], *below)
    store = open_store(load_settings())
    for one in (said, rotated):
        assert (one.code, "ci.json cannot be written" in one.err) == (1, True)
        assert one.err.startswith(f"The secret of key {key['public_key']} is not saved in a file: ")
        secret = Secret(one.err.splitlines()[0].rpartition(": ")[2])
        assert Projects(store).authenticate(key["public_key"], secret).project_id == project["id"]
    store.close()


def test_with_several_projects_project_is_required(admin: Terminal) -> None:
    admin.made("project", "create", "one")
    two = admin.made("project", "create", "two")
    assert admin.ramet("key", "create").code == 3
    assert admin.made("key", "create", "--project", two["id"])["project_id"] == two["id"]


def test_a_project_is_found_by_id_or_by_unique_name(admin: Terminal) -> None:
    one = admin.made("project", "create", "one")
    twins = [admin.made("project", "create", "two") for _ in range(2)]
    assert admin.made("key", "create", "--project", "one")["project_id"] == one["id"]
    assert [key["project_id"] for key in admin.made("key", "list", "--project", "one")] == [one["id"]]
    said = admin.ramet("key", "create", "--project", "two")
    assert (said.code, all(twin["id"] in said.err for twin in twins)) == (3, True)
    like_an_id = admin.made("project", "create", one["id"])
    assert like_an_id["id"] != one["id"]
    assert admin.made("key", "create", "--project", one["id"])["project_id"] == one["id"]


def test_an_unknown_key_or_project_exits_with_6(admin: Terminal) -> None:
    assert admin.ramet("key", "revoke", "RKNOBODY").code == 6
    assert admin.ramet("key", "list", "--project", "p123456789").code == 6


def test_a_missing_data_directory_is_not_created(stranger: Terminal) -> None:
    said = stranger.ramet("project", "list")
    assert said.code == 6
    assert "ramet up" in said.err
    assert not (stranger.home / "data").exists()
