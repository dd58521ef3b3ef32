"""`ramet service`, from create to delete, against a server over HTTP."""

import stat
import threading
from typing import Any

import pytest
import yaml

from ramet.backends.interface.values import Server
from ramet.client.http_connection import Answer
from ramet.client.transport import HttpTransport
from ramet.control.plane import utc_now
from ramet.store import services as rows
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_create_waits_until_the_service_is_ready_and_prints_it(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "shop", "--cpu", "500", "--memory", "2")
    assert said.code == 0
    assert "READY" in said.out
    assert "0.5 cpu / 2 GB" in said.out
    assert "sslmode=require" in said.out
    assert "READY after" in said.err


def test_the_password_is_saved_privately_and_not_printed(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "keeps")
    kept = terminal.config / "pgpass"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    password = kept.read_text().strip().rpartition(":")[2]
    assert len(password) == 24
    assert password not in said.out + said.err


def test_no_save_password_prints_the_password(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "shows", "--no-save-password")
    assert "password" in said.out
    assert not (terminal.config / "pgpass").exists()


def test_json_output_has_the_service_and_its_password(terminal: Terminal) -> None:
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


def test_a_target_time_outside_the_restore_window_is_refused(terminal: Terminal) -> None:
    terminal.made("service", "create", "pitr")
    said = terminal.ramet("service", "fork", "pitr", "--to-timestamp", "2001-01-15T10:30:00+02:00")
    assert said.code == 3
    assert "window" in said.err


def test_a_fork_is_as_of_now_unless_another_restore_point_is_chosen(terminal: Terminal) -> None:
    terminal.made("service", "create", "present")
    assert terminal.made("fork", "present", "--dry-run")["strategy"] == "NOW"
    assert terminal.ramet("wait", "present").code == 0
    assert "present" in terminal.ramet("ls").out


def test_a_connection_string_has_the_form_that_a_program_wants(terminal: Terminal) -> None:
    terminal.made("service", "create", "formed")
    assert terminal.ramet("db", "url", "formed").out.startswith("postgresql://")
    said = terminal.ramet("db", "url", "formed", "--format", "jdbc", "--with-password")
    assert (said.code, said.out.startswith("jdbc:postgresql://localhost:"), "password=" in said.out) == (0, True, True)


def test_a_list_is_sorted_and_filtered(terminal: Terminal) -> None:
    for name in ("zebra", "ape"):
        terminal.made("service", "create", name, "--label", "kind=animal")
    animals = ("list", "--label", "kind=animal")
    assert [one["name"] for one in terminal.made("service", *animals)] == ["zebra", "ape"]
    lines = terminal.ramet("service", *animals, "--sort", "name").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ape", "zebra"]
    assert terminal.ramet("ls", "--sort", "created").out.splitlines()[1].startswith("ape")
    assert terminal.made("service", *animals, "--status", "paused") == []
    assert len(terminal.made("service", *animals, "--status", "ready", "--status", "paused")) == 2


def test_a_list_is_watched_until_it_is_interrupted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([None, KeyboardInterrupt])

    def wait(_: float) -> None:
        if (raised := next(waits)) is not None:
            raise raised

    terminal.made("service", "create", "watched")
    with monkeypatch.context() as watch:
        watch.setattr("ramet.cli.commands.services.time.sleep", wait)
        said = terminal.ramet("ls", "--watch")
    assert (said.code, said.out.count("watched")) == (0, 2)
    assert terminal.ramet("ls", "--watch", "-o", "json").code == 3


@pytest.mark.parametrize("to", ["soon", "3000-01-01T00:00:00Z", "2001-01-15T10:30:00+02:00"])
def test_an_error_speaks_of_options_and_not_of_fields(terminal: Terminal, to: str) -> None:
    terminal.made("service", "create", f"spoken{len(to)}")
    for words in (("fork", f"spoken{len(to)}"), ("service", "restore", f"spoken{len(to)}", "--yes")):
        said = terminal.ramet(*words, "--to", to)
        assert said.code == 3
        assert "--to" in said.err
        assert "target_time" not in said.err


def test_a_fork_asks_for_the_list_once_and_waits_in_one_request(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.made("service", "create", "counted")
    asked: list[tuple[str, str]] = []
    send = HttpTransport.request

    def request(self: HttpTransport, method: str, path: str, *rest: Any) -> Answer:
        asked.append((method, path.rpartition("/")[2]))
        return send(self, method, path, *rest)

    monkeypatch.setattr(HttpTransport, "request", request)
    fork = terminal.made("service", "fork", "counted")
    assert asked[:3] == [("GET", "services"), ("POST", "forkService"), ("GET", fork["service_id"])]
    assert set(asked[3:]) <= {("GET", fork["service_id"])}


@pytest.mark.parametrize(
    "options", [["--now", "--last-snapshot"], ["--now", "--to", "5m"], ["--snapshot", "a", "--to", "5m"]]
)
def test_fork_takes_one_restore_point(terminal: Terminal, options: list[str]) -> None:
    said = terminal.ramet("service", "fork", "anything", *options)
    assert said.code == 3
    assert "only one" in said.err


def test_no_wait_prints_the_accepted_service(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "later", "--no-wait")
    assert made["status"] == "QUEUED"


def test_stop_and_start_wait_too(terminal: Terminal) -> None:
    terminal.made("service", "create", "rest")
    assert terminal.made("service", "stop", "rest")["status"] == "PAUSED"
    assert terminal.made("service", "start", "rest")["status"] == "READY"


def test_an_ambiguous_name_is_refused_with_the_ids(terminal: Terminal) -> None:
    first, second = (terminal.made("service", "create", "twin", "--allow-duplicate-name") for _ in range(2))
    said = terminal.ramet("service", "get", "twin")
    assert said.code == 3
    assert first["service_id"] in said.err
    assert second["service_id"] in said.err
    assert terminal.made("service", "get", first["service_id"])["name"] == "twin"


def test_a_name_in_the_format_of_an_id_is_found(terminal: Terminal) -> None:
    terminal.made("service", "create", "production")
    assert terminal.made("service", "get", "production")["name"] == "production"


def test_an_unknown_service_exits_with_6(terminal: Terminal) -> None:
    assert terminal.ramet("service", "get", "nobody").code == 6


def test_a_wait_that_times_out_exits_with_2(terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, initialize = threading.Event(), world.backend.servers.initialize

    def slowly(server: Server) -> None:
        may_go_on.wait(120)
        initialize(server)

    monkeypatch.setattr(world.backend.servers, "initialize", slowly)
    said = terminal.ramet("service", "create", "slow", "--wait-timeout", "50ms")
    may_go_on.set()
    assert said.code == 2
    assert "The operation continues" in said.err
    assert (terminal.config / "pgpass").exists()


def test_delete_asks_for_confirmation(terminal: Terminal) -> None:
    terminal.made("service", "create", "asked")
    assert terminal.ramet("service", "delete", "asked", typed="n\n").code == 1
    assert terminal.made("service", "get", "asked")["status"] == "READY"
    unanswered = terminal.ramet("service", "delete", "asked")
    assert (unanswered.code, unanswered.err.endswith("Nobody has answered: use --yes.\n")) == (3, True)
    assert terminal.ramet("service", "delete", "asked", typed="y\n").code == 0
    assert terminal.ramet("service", "get", "asked").code == 6


def test_delete_says_what_stays_where_the_service_is_archived(terminal: Terminal, world: World) -> None:
    stays, store = "What the off-host archive has stays there until it expires.", world.runtime.store
    shown = " ".join(terminal.ramet("service", "delete", "--help").out.split())
    assert "stays there until it expires (RAMET_ARCHIVE_DAYS)" in shown
    made = terminal.made("service", "create", "safe", "--environment", "PROD")
    assert stays not in terminal.ramet("service", "delete", "safe", typed="\n").err
    with store.write() as tx:
        rows.update_service(tx, made["service_id"], archived_until=utc_now())
    assert f"? {stays} Type the name" in terminal.ramet("service", "delete", "safe", typed="\n").err
    assert terminal.ramet("service", "delete", "safe", typed="safe\n").code == 0


def test_a_service_that_is_archived_no_more_still_shows_the_name_of_its_data(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.backend.archive, "location", "s3://bucket")
    archive = terminal.made("service", "archive", terminal.made("service", "create", "left")["name"], "--set", "off")
    assert not archive["enabled"]
    assert archive["server_name"] in terminal.ramet("service", "archive", "left").out


def test_delete_removes_the_saved_password(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "forgotten")
    assert made["initial_password"] in (terminal.config / "pgpass").read_text()
    assert terminal.ramet("service", "delete", "forgotten", "--yes").code == 0
    assert made["initial_password"] not in (terminal.config / "pgpass").read_text()


def test_deleting_a_prod_service_requires_its_name(terminal: Terminal) -> None:
    terminal.made("service", "create", "precious", "--environment", "PROD")
    for options, typed in (["--yes"], ""), (["--confirm", "other"], ""), ([], "y\n"):
        assert terminal.ramet("service", "delete", "precious", *options, typed=typed).code != 0
    assert "use --confirm 'precious'" in terminal.ramet("service", "delete", "precious").err
    assert terminal.made("service", "get", "precious")["status"] == "READY"
    assert terminal.ramet("service", "delete", "precious", "--confirm", "precious").code == 0


def test_the_same_idempotency_key_creates_one_service(terminal: Terminal) -> None:
    options = ["service", "create", "once", "--idempotency-key", "job-7"]
    assert terminal.made(*options)["service_id"] == terminal.made(*options)["service_id"]


def test_an_error_of_the_server_is_printed_with_its_remedy(terminal: Terminal) -> None:
    said = terminal.ramet("service", "create", "big", "--cpu", "999000", "--memory", "2")
    assert said.code == 3
    assert "--cpu 999000" in said.err
    assert said.out == ""


def test_json_output_has_nothing_on_standard_error(terminal: Terminal) -> None:
    listed = terminal.ramet("service", "list", "-o", "json")
    assert isinstance(listed.data, list)
    assert listed.err == ""
