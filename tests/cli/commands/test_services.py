"""`ramet service`, from create to delete, against a server over HTTP."""

import stat
import threading

import pytest
import yaml

from ramet.backends.interface.values import Server
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_create_waits_until_the_service_is_ready_and_prints_it(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "shop", "--cpu", "500", "--memory", "2")
    assert said.code == 0
    assert "READY" in said.out
    assert "0.5 cpu / 2 GB" in said.out
    assert "sslmode=require" in said.out
    assert "READY after" in said.err


def test_the_password_is_kept_privately_and_shown_nowhere(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "keeps")
    kept = terminal.config / "pgpass"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    password = kept.read_text().strip().rpartition(":")[2]
    assert len(password) == 24
    assert password not in said.out + said.err


def test_no_save_password_shows_it_instead(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "shows", "--no-save-password")
    assert "password" in said.out
    assert not (terminal.config / "pgpass").exists()


def test_programs_get_the_whole_service_with_its_password(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "whole")
    assert made["status"] == "READY"
    assert len(made["initial_password"]) == 24
    assert yaml.safe_load(terminal.ramet("service", "get", "whole", "-o", "yaml").out)["name"] == "whole"


@pytest.mark.parametrize("options", [["--now"], ["--last-snapshot"]])
def test_a_fork_is_listed_below_its_parent(terminal: Terminal, options: list[str]) -> None:
    parent = f"parent{len(options[0])}"
    terminal.made("service", "create", parent)
    fork = terminal.made("service", "fork", parent, *options)
    assert (fork["name"], fork["status"]) == (f"{parent}-fork", "READY")
    assert f"└─ {parent}-fork" in terminal.ramet("service", "list").out


def test_a_target_time_reaches_the_server_as_it_was_typed(terminal: Terminal) -> None:
    terminal.made("service", "create", "pitr")
    said = terminal.ramet("service", "fork", "pitr", "--to-timestamp", "2001-01-15T10:30:00+02:00")
    assert said.code == 3
    assert "window" in said.err


@pytest.mark.parametrize(
    "options", [[], ["--now", "--last-snapshot"], ["--now", "--to-timestamp", "2026-01-01T00:00:00Z"]]
)
def test_fork_wants_exactly_one_strategy(terminal: Terminal, options: list[str]) -> None:
    said = terminal.ramet("service", "fork", "anything", *options)
    assert said.code == 3
    assert "exactly one" in said.err


def test_no_wait_returns_what_was_accepted(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "later", "--no-wait")
    assert made["status"] == "QUEUED"


def test_stop_and_start_wait_too(terminal: Terminal) -> None:
    terminal.made("service", "create", "rest")
    assert terminal.made("service", "stop", "rest")["status"] == "PAUSED"
    assert terminal.made("service", "start", "rest")["status"] == "READY"


def test_a_name_that_two_services_have_needs_an_id(terminal: Terminal) -> None:
    first, second = terminal.made("service", "create", "twin"), terminal.made("service", "create", "twin")
    said = terminal.ramet("service", "get", "twin")
    assert said.code == 3
    assert first["service_id"] in said.err
    assert second["service_id"] in said.err
    assert terminal.made("service", "get", first["service_id"])["name"] == "twin"


def test_a_name_that_looks_like_an_id_is_found_all_the_same(terminal: Terminal) -> None:
    terminal.made("service", "create", "production")
    assert terminal.made("service", "get", "production")["name"] == "production"


def test_what_does_not_exist_ends_with_6(terminal: Terminal) -> None:
    assert terminal.ramet("service", "get", "nobody").code == 6


def test_a_wait_that_takes_too_long_ends_with_2(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, initialize = threading.Event(), world.backend.servers.initialize

    def slowly(server: Server) -> None:
        may_go_on.wait(10)
        initialize(server)

    monkeypatch.setattr(world.backend.servers, "initialize", slowly)
    said = terminal.ramet("service", "create", "slow", "--wait-timeout", "50ms")
    may_go_on.set()
    assert said.code == 2
    assert "It continues" in said.err
    assert (terminal.config / "pgpass").exists()


def test_delete_asks_and_takes_no_for_an_answer(terminal: Terminal) -> None:
    terminal.made("service", "create", "asked")
    assert terminal.ramet("service", "delete", "asked", typed="n\n").code == 1
    assert terminal.made("service", "get", "asked")["status"] == "READY"
    assert terminal.ramet("service", "delete", "asked", typed="y\n").code == 0
    assert terminal.ramet("service", "get", "asked").code == 6


def test_delete_forgets_the_password(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "forgotten")
    assert made["initial_password"] in (terminal.config / "pgpass").read_text()
    assert terminal.ramet("service", "delete", "forgotten", "--yes").code == 0
    assert made["initial_password"] not in (terminal.config / "pgpass").read_text()


def test_a_prod_service_is_deleted_by_its_name_only(terminal: Terminal) -> None:
    terminal.made("service", "create", "precious", "--environment", "PROD")
    for options, typed in (["--yes"], ""), (["--confirm", "other"], ""), ([], "y\n"):
        assert terminal.ramet("service", "delete", "precious", *options, typed=typed).code != 0
    assert terminal.made("service", "get", "precious")["status"] == "READY"
    assert terminal.ramet("service", "delete", "precious", "--confirm", "precious").code == 0


def test_the_same_idempotency_key_makes_one_service(terminal: Terminal) -> None:
    options = ["service", "create", "once", "--idempotency-key", "job-7"]
    assert terminal.made(*options)["service_id"] == terminal.made(*options)["service_id"]


def test_a_refusal_of_the_server_is_shown_with_its_remedy(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "big", "--cpu", "999000", "--memory", "2")
    assert said.code == 3
    assert "cpu_millis" in said.err
    assert said.out == ""


def test_only_data_goes_to_standard_output(terminal: Terminal) -> None:
    listed = terminal.ramet("service", "list", "-o", "json")
    assert isinstance(listed.data, list)
    assert listed.err == ""
