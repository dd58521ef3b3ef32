"""Promotions of a standby: times before that its archive lacks are a gap, never less data; replay is progress."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.waiting import BOUND_SECONDS, eventually
from prove.ground import Ground, Running
from ramet.backends.interface.values import Server
from ramet.backends.interface.values import Source as Captured
from ramet.backends.local.followers.source_end import Watch
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files, postgres
from ramet.backends.local.restore import standby_copy
from ramet.backends.local.restore.snapshots import base_of
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.restore import get_restore_window, take_snapshot
from ramet.errors import Failed, Invalid, Unavailable
from ramet.followers.verbs import FollowRequest, follow_service, promote_service
from ramet.machine.installation import Installation
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.snapshot import Snapshot, base_for
from ramet.procedures.servers import server_of
from ramet.restores.verbs import RestoreRequest, restore_service
from tests.backends.local.hosts import new_server
from tests.followers.conftest import PASSWORD, REPLICATOR, restart, start_again, url_of
from tests.followers.test_real_verbs import count_in, settled
from tests.sources import Source

pytestmark = pytest.mark.timeout(900)


def insert(source: Source, standby: Running, number: int) -> datetime:
    """Commit a row in the source, and wait until the standby has it; return a time after that."""
    source.run(f"INSERT INTO ledger VALUES ({number})")
    eventually(lambda: count_in(standby) == number, "the row")
    return datetime.now(UTC)


def snapshots_of(ground: Ground, running: Running) -> list[Snapshot]:
    found = get_restore_window(ground.plane, ground.project_id, running.service.id).snapshots
    return list(found)


def captured(ground: Ground, running: Running, target: datetime) -> Any:
    """Capture a past state, whatever the restore window says."""
    base, backend = base_for(snapshots_of(ground, running), target), ground.plane.backend
    assert base is not None
    server = server_of(ground.look(running))
    child = new_server(backend.instances)  # type: ignore[attr-defined]
    return backend.restore.capture(child, Captured(server, snapshot_id=base.id, target=target))


def test_the_last_segment_before_a_promotion_is_a_gap(ground: Ground, newest_source: Source) -> None:
    source, project_id = newest_source, ground.project_id
    source.run("ALTER SYSTEM SET track_commit_timestamp = on")
    restart(source)
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, project_id, request))
    settled(ground, standby)
    insert(source, standby, 101)
    take_snapshot(ground.plane, project_id, standby.service.id, "first")
    settled(ground, standby)
    taken_at = max(one.taken_at for one in snapshots_of(ground, standby))
    eventually(lambda: datetime.now(UTC) > taken_at, "the time of the snapshot, which is that of the source")
    lost_at = insert(source, standby, 102)
    promote_service(ground.plane, project_id, standby.service.id, lsn=None, drain=False, neutralize=False)
    settled(ground, standby)
    eventually(lambda: len(snapshots_of(ground, standby)) == 3, "its own snapshot")
    window = get_restore_window(ground.plane, project_id, standby.service.id)
    promoted_at = max(one.taken_at for one in window.snapshots)
    assert [(gap.contains(lost_at), gap.ends_at) for gap in window.gaps] == [(True, promoted_at)]
    with pytest.raises(Invalid, match="is in a gap"):
        ground.fork(standby, ForkRequest(ForkStrategy.PITR, target_time=lost_at.isoformat()))
    with pytest.raises(Failed) as raised:
        captured(ground, standby, lost_at)
    assert raised.value.code == "WAL_MISSING"
    (first,) = [one for one in window.snapshots if one.name == "first"]
    fork = ground.fork(standby, ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=first.id))
    with fork.connect() as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchall() == [(101,)]


def test_a_time_between_a_snapshot_and_the_next_commit_has_all_of_the_snapshot_after_the_promotion(
    ground: Ground, newest_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replayed after the control file was copied is in the snapshot, but behind its minimum recovery point."""
    source, project_id = newest_source, ground.project_id
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, project_id, request))
    settled(ground, standby)
    copy_control_file = standby_copy._copy_control_file

    def copy_before_a_commit(installation: Installation, parent: ServicePaths, target: Path) -> None:
        copy_control_file(installation, parent, target)
        insert(source, standby, 101)

    with monkeypatch.context() as patched:
        patched.setattr(standby_copy, "_copy_control_file", copy_before_a_commit)
        take_snapshot(ground.plane, project_id, standby.service.id, "first")
        settled(ground, standby)
    *_, taken = snapshots_of(ground, standby)
    base = base_of(ground.backend.instances.paths(standby.service.id), taken.id)
    assert base.complete_until is not None
    assert base.complete_until < taken.taken_at
    eventually(lambda: datetime.now(UTC) > taken.taken_at, "the time of the snapshot, which is that of the source")
    target = datetime.now(UTC)
    eventually(lambda: datetime.now(UTC) > target, "another moment")
    insert(source, standby, 102)
    archive = ground.backend.instances.paths(standby.service.id).archive
    with source.connect() as connection:
        (name,) = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()[0]
    eventually((archive / str(name)).exists, "the segment of the later commit is archived")
    promote_service(ground.plane, project_id, standby.service.id, lsn=None, drain=False, neutralize=False)
    settled(ground, standby)
    fork = ground.fork(standby, ForkRequest(ForkStrategy.PITR, target_time=target.isoformat()))
    assert (newest_row(fork), newest_row(standby)) == (101, 102)
    again = RestoreRequest(target_time=target.isoformat(), keeps=False, confirm="shop")
    restore_service(ground.plane, project_id, standby.service.id, again)
    settled(ground, standby)
    assert newest_row(standby) == 101


def newest_row(running: Running) -> object:
    """Return the newest row of a service that can be written to."""
    with running.connect() as connection:
        return connection.execute("SELECT max(n) FROM ledger").fetchall()[0][0]


@contextmanager
def reading(standby: Running, table: str) -> Iterator[None]:
    """Read a table of a standby in a transaction, which replay of a change to the table waits for."""
    with psycopg.connect(
        host="localhost", port=standby.service.port, user="app", password="app", dbname="shop"
    ) as connection:
        connection.execute(f"SELECT FROM {table}".encode())
        yield


def test_a_promotion_shows_how_far_replay_is_as_long_as_it_goes_on(ground: Ground, newest_source: Source) -> None:
    source, followers = newest_source, ground.plane.backend.followers
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    server = server_of(ground.look(standby))
    with reading(standby, "ledger"):
        with reading(standby, "apps_own"):
            for table in ("apps_own", "ledger"):
                source.run(f"ALTER TABLE {table} ADD COLUMN added int")
            eventually(lambda: has_received_all(ground, standby, source), "the changes are received")
            before = followers.promote(server, 0.0)
            assert before is not None
        eventually(lambda: followers.promote(server, 0.0) not in (None, before), "progress")
    promote_service(ground.plane, ground.project_id, standby.service.id, lsn=None, drain=False, neutralize=False)
    settled(ground, standby)


def has_received_all(ground: Ground, standby: Running, source: Source) -> bool:
    """Tell whether a standby has received all that its source has flushed."""
    paths = ground.plane.backend.instances.paths(standby.service.id)  # type: ignore[attr-defined]
    with source.connect() as connection:
        end = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()[0][0]
    with connections.connect(paths) as connection:
        return bool(connections.value(connection, "SELECT pg_last_wal_receive_lsn() >= %s::pg_lsn", end))


def subscribe(source: Source) -> None:
    """Let another database of a source subscribe to its database `shop`."""
    source.run("CREATE ROLE publisher SUPERUSER LOGIN PASSWORD 'publisher'")
    source.run("CREATE PUBLICATION of_shop FOR TABLE ledger")
    source.run("SELECT pg_create_logical_replication_slot('of_shop', 'pgoutput')")
    source.run("CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz)", "postgres")
    publisher = f"host=localhost port={source.own_port} user=publisher password=publisher dbname=shop"
    source.run(
        f"CREATE SUBSCRIPTION of_shop CONNECTION '{publisher}' PUBLICATION of_shop"
        " WITH (create_slot = false, copy_data = false)",
        "postgres",
    )


def workers_of(ground: Ground, standby: Running) -> int:
    """Return how many workers of subscriptions the server may have since its start."""
    paths = ground.backend.instances.paths(standby.service.id)
    with connections.connect(paths) as connection:
        return int(connections.value(connection, "SELECT current_setting('max_logical_replication_workers')"))


def test_no_subscription_of_the_source_connects_from_a_promoted_service_that_is_neutralized(
    ground: Ground, newest_source: Source
) -> None:
    source, project_id = newest_source, ground.project_id
    subscribe(source)
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, project_id, request))
    promote_service(ground.plane, project_id, standby.service.id, lsn=None, drain=False, neutralize=True)
    settled(ground, standby)
    said = [str(entry["message"]) for entry in log_files.entries(ground.backend.instances.paths(standby.service.id))]
    assert [line for line in said if "apply worker" in line] == []
    assert (ground.look(standby).report or {})["promoted"]["subscriptions"] == ["postgres.of_shop"]
    assert workers_of(ground, standby) > 0
    with standby.connect() as connection:
        connection.execute("INSERT INTO ledger VALUES (101)")


def test_a_promotion_that_neutralizes_holds_workers_back_at_each_start_until_it_has(
    ground: Ground, newest_source: Source
) -> None:
    request = FollowRequest(CreateRequest("shop"), url_of(newest_source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    server, backend = server_of(ground.look(standby)), ground.backend
    assert workers_of(ground, standby) > 0
    assert backend.followers.promote(server, BOUND_SECONDS, neutralize=True) is not None
    backend.instances.boot(server)
    assert workers_of(ground, standby) == 0
    eventually(lambda: backend.followers.promote(server, 1.0, neutralize=True) is None, "the promotion")
    assert postgres.kill(backend.instances.paths(server.service_id), BOUND_SECONDS)
    backend.instances.boot(server)
    assert workers_of(ground, standby) == 0
    for _ in range(2):
        backend.followers.take_over(server, neutralize=True)
        backend.followers.start_workers(server)
        assert workers_of(ground, standby) > 0


def test_the_report_of_a_promotion_is_complete_though_its_last_restart_was_interrupted(
    ground: Ground, newest_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = FollowRequest(CreateRequest("shop"), url_of(newest_source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    restart_server = Instances.restart
    interrupted: list[Server] = []

    def interrupt_once(instances: Instances, server: Server) -> None:
        if not interrupted:
            interrupted.append(server)
            raise Unavailable("SERVER_STOPPING", "The server is still stopping")
        restart_server(instances, server)

    monkeypatch.setattr(Instances, "restart", interrupt_once)
    promote_service(ground.plane, ground.project_id, standby.service.id, lsn=None, drain=False, neutralize=True)
    settled(ground, standby)
    assert len(interrupted) == 1
    assert (ground.look(standby).report or {})["promoted"]["adopted"]["database"] == "shop"
    assert workers_of(ground, standby) > 0


def test_a_source_that_was_started_again_and_sends_nothing_is_not_taken_for_one_that_was_shut_down(
    ground: Ground, newest_source: Source
) -> None:
    source, followers = newest_source, ground.backend.followers
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    server = server_of(ground.look(standby))

    def left() -> str | None:
        return followers.await_end(server, None, drain=True)

    def is_refused() -> bool:
        try:
            assert left() is not None
        except Failed as failed:
            return failed.code == "SOURCE_RETURNED"
        return False

    def says_why() -> bool:
        seen = followers.observe(server)
        return seen is not None and "refuses the role" in str(seen.problem)

    eventually(lambda: "is running" in str(left()), "it streams")
    source.run(f"ALTER ROLE {REPLICATOR} NOLOGIN")
    restart(source)
    source.run("INSERT INTO ledger VALUES (101)")
    eventually(is_refused, "the refusal")
    source.run(f"ALTER ROLE {REPLICATOR} LOGIN PASSWORD 'another'")
    eventually(says_why, "the reason")
    source.process.send_signal(signal.SIGINT)
    source.process.wait(BOUND_SECONDS)
    eventually(is_refused, "the refusal although the source does not answer now")
    start_again(source)
    password = PASSWORD.replace("'", "''")
    source.run(f"ALTER ROLE {REPLICATOR} PASSWORD '{password}'")
    eventually(lambda: count_in(standby) == 101, "the row")
    eventually(lambda: "is running" in str(left()), "it streams again")
    source.process.send_signal(signal.SIGINT)
    source.process.wait(BOUND_SECONDS)
    eventually(lambda: left() is None, "all of the source")

    def is_unknown() -> bool:
        try:
            replace(followers, _watch=Watch()).await_end(server, None, drain=True)
        except Failed as failed:
            return failed.code == "SOURCE_END_UNKNOWN"
        return False

    eventually(is_unknown, "the refusal of a promotion that begins after the shutdown")
