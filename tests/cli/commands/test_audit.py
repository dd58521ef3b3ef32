"""`ramet audit`, on a server and on the store of a data directory."""

import json
import sqlite3
from pathlib import Path

import pytest

from ramet.configured import open_store
from ramet.settings import load_settings, make_data_dir
from tests.cli.terminal import Terminal
from tests.cli.world import World


@pytest.fixture
def admin(stranger: Terminal) -> Terminal:
    settings = load_settings()
    make_data_dir(settings.data_dir)
    open_store(settings).close()
    return stranger


def test_the_list_and_the_export_tell_who_did_what(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "shop", "--no-wait")
    (entry,) = terminal.made("audit", "list", "--verb", "createService")
    assert (entry["actor"]["name"], entry["outcome"], entry["fields"]["name"]) == ("first", "accepted", "shop")
    shown = terminal.ramet("audit", "list").out
    assert "createService" in shown
    assert "name=shop" in shown
    lines = terminal.ramet("audit", "export", "--actor", world.public_key).out.splitlines()
    assert [json.loads(line)["verb"] for line in lines] == ["createService"]


def test_commands_on_the_host_are_recorded_and_verified(admin: Terminal) -> None:
    project = admin.made("project", "create", "one")
    key = admin.made("key", "create", "--name", "ci")
    admin.made("project", "limits", "one", "--max-forks", "5")
    assert admin.ramet("key", "revoke", key["public_key"]).code == 0
    lines = admin.ramet("audit", "export", "--host").out.splitlines()
    entries = [json.loads(line) for line in lines]
    assert [one["verb"] for one in entries] == [
        "ramet project create",
        "ramet key create",
        "ramet project limits",
        "ramet key revoke",
    ]
    assert {one["actor"]["kind"] for one in entries} == {"host"}
    assert {one["project_id"] for one in entries} == {project["id"]}
    assert [one["subject"] for one in entries[1::2]] == [key["public_key"]] * 2
    assert entries[2]["fields"] == {"project": "one", "max_forks": 5}
    assert entries[3]["fields"] == {"public_key": key["public_key"]}
    assert key["secret_key"] not in repr(lines)
    verified = admin.made("audit", "verify")
    assert (verified["entries"], verified["problems"]) == (4, [])
    assert admin.ramet("audit", "verify", "--expect", f"4:{verified['link']}").code == 0
    assert admin.ramet("audit", "verify", "--expect", f"5:{verified['link']}").code == 1


def test_a_verification_that_compared_no_entry_says_that_newer_ones_may_be_missing(admin: Terminal) -> None:
    admin.made("project", "create", "one")
    alone = admin.ramet("audit", "verify", "-o", "json")
    verified = json.loads(alone.out)
    assert (alone.code, verified["anchors"]) == (0, 0)
    assert "Whether newer ones were removed is not known" in alone.err
    assert "--expect" in alone.err
    compared = admin.ramet("audit", "verify", "-o", "json", "--expect", f"1:{verified['link']}")
    assert (compared.code, json.loads(compared.out)["anchors"]) == (0, 1)
    assert "No entry was changed or removed." in compared.err


def test_what_was_altered_fails_the_verification_and_a_restore_can_be_accepted(admin: Terminal) -> None:
    for name in ("one", "two", "three"):
        admin.made("project", "create", name)
    settings = load_settings()
    (settings.data_dir / "audit.anchors").write_text('{"sequence":4,"link":"x"}\n')
    answer = admin.ramet("audit", "verify")
    assert answer.code == 1
    assert "Entry 4" in answer.err
    assert admin.ramet("audit", "verify", "--accept-loss").code == 0
    database = sqlite3.connect(Path(settings.data_dir) / "ramet.db")
    database.execute("DELETE FROM audit_entry WHERE sequence = 2")
    database.commit()
    database.close()
    assert "Entries are missing between 1 and 3" in admin.ramet("audit", "verify").err
