"""Restore windows, fork reports, snapshots and dry runs on the command line."""

from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.control.duties.archive import OffHostArchive
from ramet.model.timestamps import rfc3339
from ramet.store import services
from ramet.store.tables import operation
from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_the_restore_window_and_snapshots_are_shown(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "past")
    window = terminal.made("service", "window", "past")
    assert (window["gaps"], len(window["snapshots"])) == ([], 1)
    assert "kept for" in terminal.ramet("service", "window", "past").out
    taken = terminal.ramet("service", "snapshot", "past", "--name", "by hand").out.split()[-1]
    assert "by hand" in terminal.ramet("service", "snapshots", "past").out
    eventually(lambda: {one["status"] for one in terminal.made("service", "snapshots", "past")} == {"AVAILABLE"})
    assert "took long" not in terminal.ramet("service", "window", "past").out
    with world.runtime.store.write() as tx:
        tx.execute(operation.update().where(operation.c.id == taken).values(state={"seconds": 30.0}))
    assert "took long" in terminal.ramet("service", "window", "past").out
    assert "next_snapshot_at" in terminal.made("service", "window", "past")
    assert terminal.ramet("service", "snapshot", "past", "--delete", taken).code == 0
    eventually(lambda: taken not in [one["id"] for one in terminal.made("service", "snapshots", "past")])


def test_settings_of_the_restore_window_are_changed_and_reset(terminal: Terminal) -> None:
    terminal.made("service", "create", "kept")
    usual = terminal.made("service", "window", "kept")
    names = ("window_days", "snapshot_interval_seconds", "snapshot_wal_bytes")
    options = ("--days", "14", "--snapshot-every", "1h30m", "--snapshot-wal", "64")
    changed = terminal.made("service", "window", "kept", *options)
    assert [changed[name] for name in names] == [14, 5400, 64 * 1024**2]
    partly = terminal.made("service", "window", "kept", "--days", "default")
    assert [partly[name] for name in names] == [usual["window_days"], 5400, 64 * 1024**2]
    assert terminal.ramet("service", "window", "kept", "--days", "0").code == 3
    assert terminal.ramet("service", "window", "kept", "--days", "many").code == 3
    assert terminal.made("service", "window", "kept")["snapshot_interval_seconds"] == 5400


def test_a_dry_run_shows_the_fork_without_creating_it(terminal: Terminal, world: World) -> None:
    parent = terminal.made("service", "create", "dry")
    restore_time = rfc3339(world.backend.commit(parent["service_id"], "row").committed_at)
    plan = terminal.made("service", "fork", "dry", "--to-timestamp", restore_time, "--dry-run")
    assert (plan["name"], plan["strategy"]) == ("dry-fork", "PITR")
    said = terminal.ramet("service", "fork", "dry", "--now", "--dry-run")
    assert "takes about" in said.out
    assert "dry-fork" not in terminal.ramet("service", "list").out


def test_a_fork_has_a_report(terminal: Terminal) -> None:
    terminal.made("service", "create", "orders")
    terminal.made("service", "fork", "orders", "--now")
    assert terminal.made("service", "report", "orders-fork")["strategy"] == "NOW"
    said = terminal.ramet("service", "report", "orders-fork").out
    assert "cumulative statistics: " in said
    assert all(word in said for word in ("last included", "checked", "capture"))


def test_a_report_lists_paused_jobs_and_no_quiet_keeps_them_running(terminal: Terminal, world: World) -> None:
    world.backend.jobs = ["tsdb: timescaledb job 1000"]
    terminal.made("service", "create", "busy")
    for words, is_paused in (
        ((), True),
        (("--no-quiet",), False),
        (("--environment", "PROD"), False),
        (("--environment", "PROD", "--quiet"), True),
    ):
        fork = terminal.made("service", "fork", "busy", "--now", *words)
        said = terminal.ramet("service", "report", fork["service_id"]).out
        assert ("tsdb: timescaledb job 1000: paused" in said) is is_paused


def test_a_snapshot_is_forked_by_its_name_and_by_its_id(terminal: Terminal, world: World) -> None:
    parent = terminal.made("service", "create", "kept-state")
    world.backend.commit(parent["service_id"], "before")
    terminal.ramet("service", "snapshot", "kept-state", "--name", "migration")
    with world.client() as client:
        eventually(lambda: {one.status for one in client.list_snapshots(parent["service_id"])} == {"AVAILABLE"})
        [taken] = [one for one in client.list_snapshots(parent["service_id"]) if one.name == "migration"]
    world.backend.commit(parent["service_id"], "after")
    for wanted in ("migration", taken.id):
        forked = terminal.made("service", "fork", "kept-state", "--snapshot", wanted)
        assert forked["metadata"]["snapshot_id"] == taken.id
        assert world.backend.values(forked["service_id"]) == ["before"]
    plan = terminal.made("service", "fork", "kept-state", "--snapshot", "migration", "--dry-run")
    assert plan["base_snapshot"]["id"] == taken.id
    unknown = terminal.ramet("service", "fork", "kept-state", "--snapshot", "[nothing]")
    assert (unknown.code, "the name '[nothing]'" in unknown.err) == (3, True)


def test_the_report_of_a_warm_fork_says_that_it_was_made_before(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "hearth")
    made = terminal.made("service", "fork", "hearth")
    with world.runtime.store.write() as tx:
        fork = services.get_service(tx, made["service_id"])
        assert fork is not None
        services.update_service(tx, fork.id, ready_at=fork.created_at)
    assert "it is a warm fork, whose steps had ended before" in terminal.ramet("service", "report", "hearth-fork").out


def test_a_relative_target_time_is_accepted(terminal: Terminal) -> None:
    terminal.made("service", "create", "recent")
    plan = terminal.made("service", "fork", "recent", "--to-timestamp", "1ms ago", "--dry-run")
    assert datetime.fromisoformat(plan["target_time"]) <= datetime.now(UTC)
    refused = terminal.ramet("service", "fork", "recent", "--to-timestamp", "3 days ago")
    assert (refused.code, "restore window" in refused.err) == (3, True)


def test_a_deleted_service_is_forked_by_its_name(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.backend.archive, "location", "s3://bucket")
    created = terminal.made("service", "create", "gone", "--environment", "PROD")
    OffHostArchive(world.runtime.plane).maintain()
    assert "off-host archive" in terminal.ramet("service", "window", "gone").out
    world.backend.commit(created["service_id"], "row")
    assert terminal.ramet("service", "delete", "gone", "--confirm", "gone").code == 0
    eventually(lambda: "gone" in terminal.ramet("service", "list", "--deleted").out)
    (listed,) = terminal.made("service", "list", "--deleted")
    assert listed["service_id"] == created["service_id"]
    assert "base backup" in terminal.ramet("service", "fork", "gone", "--from-deleted", "--dry-run").out
    fork = terminal.made("service", "fork", "gone", "--from-deleted")
    assert world.backend.values(fork["service_id"]) == ["row"]
    assert "memory://, base backup" in terminal.ramet("service", "report", "gone-fork").out
    assert terminal.ramet("service", "fork", "never", "--from-deleted").code == 6
