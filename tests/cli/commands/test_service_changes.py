"""Changes, logs, metrics and operations on the command line, against a server over HTTP."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from ramet.backends.interface.values import ExtensionUpdate
from ramet.control.duties.sampling import Sampling
from ramet.model.logs import LogEntry
from ramet.store import metrics
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_a_service_is_renamed_resized_and_set_to_prod(terminal: Terminal) -> None:
    terminal.made("service", "create", "verbs")
    assert terminal.made("service", "rename", "verbs", "renamed")["name"] == "renamed"
    resized = terminal.made("service", "resize", "renamed", "--cpu", "1000", "--memory", "4")
    assert (resized["status"], resized["resources"][0]["spec"]["cpu_millis"]) == ("READY", 1000)
    assert terminal.ramet("service", "set-environment", "renamed", "prod").code == 0
    assert terminal.made("service", "get", "renamed")["metadata"]["environment"] == "PROD"
    refused = terminal.ramet("service", "resize", "renamed", "--cpu", "0", "--memory", "4")
    assert (refused.code, "--cpu" in refused.err) == (3, True)


def test_high_availability_is_set_where_there_are_hosts_for_it(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.made("service", "create", "available")
    refused = terminal.ramet("service", "set-ha", "available", "1")
    assert (refused.code, "this backend has one" in refused.err) == (3, True)
    monkeypatch.setattr(world.backend, "has_standbys", True)
    changed = terminal.made("service", "set-ha", "available", "2", "--sync", "1")
    assert changed["ha_replicas"] == {"sync_replica_count": 1, "replica_count": 2}
    assert "2 replicas, 1 synchronous" in terminal.ramet("service", "get", "available").out
    assert terminal.made("service", "set-ha", "available", "0")["ha_replicas"]["replica_count"] == 0


def test_the_wal_level_is_set_and_the_slots_are_shown(terminal: Terminal, world: World) -> None:
    made = terminal.made("service", "create", "published", "--wal-level", "logical")
    volume = world.backend.volumes[made["service_id"]]
    assert "wal_level of published is logical" in terminal.ramet("service", "replication", "published").err
    volume.slots.add("outside")
    said = terminal.ramet("service", "replication", "published")
    assert "outside" in said.out
    assert "more than 4096 MiB is lost" in said.err
    refused = terminal.ramet("service", "set-wal-level", "published", "replica")
    assert (refused.code, "slots outside" in refused.err) == (3, True)
    fork = terminal.made("service", "fork", "published", "--now", "--wal-level", "replica", "--name", "unpublished")
    assert "wal_level" not in fork["metadata"]
    volume.slots.clear()
    changed = terminal.made("service", "set-wal-level", "published", "replica")
    assert (changed["status"], "wal_level" in changed["metadata"]) == ("READY", False)
    assert terminal.ramet("service", "create", "x", "--from", "postgresql://x", "--wal-level", "logical").code == 3


def test_a_paused_service_without_listed_slots_is_not_said_to_have_none(terminal: Terminal) -> None:
    terminal.made("service", "create", "quiet-publisher")
    assert "has no replication slots" in terminal.ramet("service", "replication", "quiet-publisher").err
    terminal.made("service", "stop", "quiet-publisher")
    said = terminal.ramet("service", "replication", "quiet-publisher").err
    assert "may not be shown until it is resumed" in said
    assert "has no replication slots" not in said


def test_resizing_a_paused_service_waits_until_it_is_ready(terminal: Terminal) -> None:
    terminal.made("service", "create", "resting")
    terminal.made("service", "stop", "resting")
    resized = terminal.made("service", "resize", "resting", "--cpu", "500", "--memory", "2")
    assert (resized["status"], resized["resources"][0]["spec"]["memory_gbs"]) == ("READY", 2)


@pytest.mark.parametrize(("options", "typed"), [(["--generate"], ""), (["--stdin"], "s3cret: \\x\n")])
def test_a_new_password_is_saved_and_not_printed(terminal: Terminal, options: list[str], typed: str) -> None:
    name = f"locked{len(options)}{len(typed)}"
    terminal.made("service", "create", name)
    before = (terminal.config / "pgpass").read_text()
    said = terminal.ramet("service", "update-password", name, *options, typed=typed)
    assert said.code == 0, said.err
    after = (terminal.config / "pgpass").read_text()
    assert after != before
    if typed:
        assert after.rstrip("\n").endswith("s3cret\\: \\\\x")
    password = after.rstrip("\n").rpartition("tsdbadmin:")[2]
    assert password not in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("service", "update-password", "mute"), "use --generate or --stdin."),
        (("service", "import", "x", "--from", "postgresql://a@h/d"), "use --password-file, PGPASSWORD or ~/.pgpass."),
    ],
)
def test_without_a_terminal_no_password_is_asked_for(
    world: World, terminal: Terminal, arguments: tuple[str, ...], said: str
) -> None:
    terminal.made("service", "create", "mute", "--if-not-exists")
    done = subprocess.run(
        [sys.executable, "-m", "ramet", *arguments],
        env={**os.environ, **world.environ()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        start_new_session=True,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, f"Error: Nobody has answered: {said}")
    assert "GetPassWarning" not in done.stderr


def test_a_repeated_create_keeps_a_password_that_was_changed_since(terminal: Terminal) -> None:
    options = ("service", "create", "again", "--idempotency-key", "job-9")
    assert "initial_password" in terminal.made(*options)
    assert terminal.ramet("service", "update-password", "again", "--generate").code == 0
    kept = (terminal.config / "pgpass").read_text()
    assert "initial_password" not in terminal.made(*options)
    assert (terminal.config / "pgpass").read_text() == kept
    assert "changed since" in terminal.ramet(*options).out


def test_a_password_that_is_not_saved_removes_the_saved_one(terminal: Terminal) -> None:
    terminal.made("service", "create", "unkept")
    assert (terminal.config / "pgpass").read_text()
    said = terminal.ramet("service", "update-password", "unkept", "--generate", "--no-save-password")
    assert (said.code, (terminal.config / "pgpass").read_text()) == (0, "")
    assert terminal.ramet("db", "connection-string", "unkept", "--with-password").code == 6


def test_logs_are_filtered_and_printed_oldest_first(terminal: Terminal, world: World) -> None:
    service = terminal.made("service", "create", "logged")
    begin = datetime.now(UTC) - timedelta(hours=2)
    world.backend.volumes[service["service_id"]].log += [
        LogEntry(begin + timedelta(seconds=n), "ERROR" if n == 700 else "LOG", f"line {n}") for n in range(1000)
    ]
    lines = terminal.ramet("service", "logs", "logged", "-n", "3").out.splitlines()
    assert [line.rpartition("  ")[2] for line in lines] == ["line 997", "line 998", "line 999"]
    assert len(terminal.ramet("service", "logs", "logged", "-n", "800").out.splitlines()) == 800
    (error,) = terminal.made("service", "logs", "logged", "--severity", "error", "--since", "1d")
    assert error["message"] == "line 700"
    assert terminal.made("service", "logs", "logged", "--since", "1h") == []
    assert terminal.ramet("service", "logs", "logged", "--since", "yesterday").code == 3


def test_control_characters_of_a_log_do_not_reach_the_terminal(terminal: Terminal, world: World) -> None:
    service = terminal.made("service", "create", "spoofed")
    message = 'role "\x1b[2J" does not exist'
    world.backend.volumes[service["service_id"]].log.append(LogEntry(datetime.now(UTC), "FATAL", message))
    assert r'role "\x1b[2J" does not exist' in terminal.ramet("service", "logs", "spoofed").out
    assert terminal.made("service", "logs", "spoofed")[-1]["message"] == message


def test_metrics_show_the_usage_and_a_time_series(terminal: Terminal, world: World) -> None:
    service = terminal.made("service", "create", "measured")
    measured = world.backend.volumes[service["service_id"]].measured
    sampling = Sampling(world.runtime.plane)
    for n in range(2):
        measured |= {"ramet_memory_bytes": 50e6, "ramet_connections;state=idle": n}
        sampling.sample()
    said = terminal.ramet("service", "metrics", "measured").out
    assert "50 MB" in said
    assert "ramet_connections" in said
    assert "state=idle" in terminal.ramet("service", "metrics", "measured", "ramet_connections", "--fn", "max").out
    (series,) = terminal.made("service", "metrics", "measured", "ramet_connections", "--label", "state=idle")
    assert series["labels"] == {"role": "primary", "state": "idle"}
    assert terminal.ramet("service", "metrics", "measured", "nothing").code == 3
    assert terminal.ramet("service", "metrics", "measured", "ramet_connections", "--label", "idle").code == 3


def test_usage_that_is_not_measured_while_a_service_is_paused_is_shown_as_unknown(
    terminal: Terminal, world: World
) -> None:
    service_id = terminal.made("service", "create", "unmeasured")["service_id"]
    Sampling(world.runtime.plane).sample()
    with world.runtime.store.write() as tx:
        metrics.put_own_space(tx, {service_id: 7_000_000}, datetime.now(UTC))
    terminal.made("service", "stop", "unmeasured")
    lines = [line.split() for line in terminal.ramet("service", "metrics", "unmeasured").out.splitlines()]
    assert lines[:4] == [["cpu", "?"], ["memory", "?"], ["storage", "?"], ["of", "its", "own", "7", "MB"]]


def test_operations_and_steps_are_listed_also_for_deleted_services(terminal: Terminal) -> None:
    service = terminal.made("service", "create", "historic")
    assert "SUCCEEDED" in terminal.ramet("operations", "historic").out
    assert "publish" in terminal.ramet("operations", "historic", "--steps").out
    terminal.ramet("service", "delete", "historic", "--yes")
    assert terminal.ramet("operations", "historic").code == 6
    listed = terminal.made("operations", service["service_id"])
    assert [operation["operation"] for operation in listed] == ["delete", "create"]
    everything = terminal.made("operations", service["service_id"], "--all")
    assert [operation["operation"] for operation in everything] == ["delete", "prepare", "create"]
    assert "historic" in terminal.ramet("operations").out


def test_operations_are_shown_in_the_time_zone_of_the_host(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal.made("service", "create", "timely")
    at = datetime.fromisoformat(terminal.made("operations", made["service_id"])[0]["created"])
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        shown = terminal.ramet("operations", made["service_id"]).out
    finally:
        monkeypatch.undo()
        time.tzset()
    assert f"{at + timedelta(hours=5, minutes=30):%Y-%m-%d %H:%M:%S}" in shown


def test_creating_a_role_requires_the_saved_admin_password(terminal: Terminal) -> None:
    terminal.made("service", "create", "roles", "--no-save-password")
    said = terminal.ramet("db", "create", "role", "roles", "reader", "--read-only")
    assert (said.code, "update-password" in said.err) == (6, True)


@pytest.mark.parametrize("typed", ["", "\n"])
def test_a_role_without_a_password_is_not_created(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    made: list[object] = []
    monkeypatch.setattr("ramet.cli.commands.roles.make_role", lambda *wanted: made.append(wanted))
    terminal.made("service", "create", "voiceless", "--allow-duplicate-name")
    service_id = terminal.made("service", "list")[-1]["service_id"]
    said = terminal.ramet("db", "create", "role", service_id, "app", "--stdin", typed=typed)
    assert (said.code, made, "must be the password" in said.err) == (3, [], True)


def test_an_extension_that_is_not_updated_is_an_error(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "steps")
    assert "Nothing to update" in terminal.ramet("db", "upgrade-extension", "steps").err
    world.backend.outdated = [
        ExtensionUpdate("tsdb", "vector", "0.7.0", "0.8.0"),
        ExtensionUpdate("tsdb", "postgis", "3.4", "4.0", "it has no update from 3.4 to 4.0"),
    ]
    done = terminal.ramet("db", "upgrade-extension", "steps", "vector")
    assert (done.code, "0.8.0" in done.out, "updated" in done.out) == (0, True, True)
    said = terminal.ramet("db", "upgrade-extension", "steps")
    assert said.code != 0
    assert "no update from 3.4" in said.out
    assert "1 of 2 extensions were not updated" in said.err


def test_a_service_is_optimized(terminal: Terminal) -> None:
    terminal.made("service", "create", "slow")
    assert terminal.made("service", "optimize", "slow")["status"] == "READY"
