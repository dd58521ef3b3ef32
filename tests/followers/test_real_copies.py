"""A standby that cannot catch up any more is copied again by itself, and can be forked during that and afterwards."""

import shutil
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.api.schemas.services import Service
from ramet.client import ApiError, Client, ForkStrategy
from tests.followers.conftest import remove_wal, start_again
from tests.followers.test_real_followers import append, ask, follow, fork, shows
from tests.sources import Source

_SECONDS = 300.0
_LEDGER = "SELECT n FROM ledger WHERE n > 100 ORDER BY n"


def is_copied_again(client: Client, service: Service, row: int) -> None:
    """Wait until the service has a row that only another copy brings."""
    port = service.endpoint.port

    def is_there() -> bool:
        found = client.get_service(service.service_id)
        return found.status == "READY" and (row,) in shows(port, _LEDGER)

    eventually(is_there, lambda: f"row {row}: {client.list_operations(service_id=service.service_id).operations}")
    client.wait_ready(service.service_id, timeout_seconds=_SECONDS)


def test_a_standby_whose_source_removed_its_wal_is_copied_again_and_keeps_its_past(
    client: Client, newest_source: Source
) -> None:
    source = newest_source
    made = follow(client, source)
    append(source, 101)
    eventually(lambda: shows(made.endpoint.port, _LEDGER) == [(101,)], "the first row")
    taken = client.take_snapshot(made.service_id)
    client.wait_snapshot(made.service_id, taken.id, timeout_seconds=_SECONDS)
    append(source, 102)
    eventually(lambda: (102,) in shows(made.endpoint.port, _LEDGER), "the second row")
    client.stop_service(made.service_id)
    client.wait_paused(made.service_id, timeout_seconds=_SECONDS)
    append(source, 103)
    in_gap = datetime.now(UTC)
    remove_wal(source)
    late_in_gap = datetime.now(UTC)
    append(source, 104)
    client.start_service(made.service_id)
    eventually(lambda: "copied again" in problem(client, made), lambda: problem(client, made))
    is_copied_again(client, made, 104)

    append(source, 105)
    eventually(lambda: (105,) in shows(made.endpoint.port, _LEDGER), "it streams again")
    eventually(lambda: problem(client, made) == "", lambda: problem(client, made))
    (gap,) = client.restore_window(made.service_id).gaps
    past = fork(client, made.service_id, ForkStrategy.PITR, target_time=gap.begins_at.isoformat())
    assert ask(past, _LEDGER) == [(101,)]
    for target in (gap.begins_at + timedelta(microseconds=1), in_gap, late_in_gap):
        with pytest.raises(ApiError) as refused:
            fork(client, made.service_id, ForkStrategy.PITR, target_time=target.isoformat())
        assert refused.value.code == "OUTSIDE_RESTORE_WINDOW"
    now = fork(client, made.service_id, ForkStrategy.NOW)
    assert ask(now, _LEDGER) == [(n,) for n in range(101, 106)]
    for one in (past, now, made):
        client.delete_service(one.service_id)


def test_a_standby_of_a_source_that_was_set_back_is_copied_again_and_its_old_state_stays_a_snapshot(
    client: Client, newest_source: Source
) -> None:
    source, made = newest_source, follow_and_set_back(client, newest_source, is_promoted=True)
    append(source, 201)
    is_copied_again(client, made, 201)
    assert shows(made.endpoint.port, _LEDGER) == [(201,)]

    kept = [one for one in client.list_snapshots(made.service_id) if one.kind == "MANUAL"]
    assert [one.name for one in kept] == ["before its source was copied again"]
    old = fork(client, made.service_id, ForkStrategy.LAST_SNAPSHOT, snapshot_id=kept[0].id)
    assert ask(old, _LEDGER) == [(101,), (102,)]
    now = fork(client, made.service_id, ForkStrategy.NOW)
    assert ask(now, _LEDGER) == [(201,)]
    for one in (old, now, made):
        client.delete_service(one.service_id)


def test_a_source_that_lost_wal_on_the_same_timeline_is_a_problem(client: Client, newest_source: Source) -> None:
    made = follow_and_set_back(client, newest_source, is_promoted=False)
    eventually(lambda: "has lost WAL" in problem(client, made), lambda: problem(client, made))
    client.delete_service(made.service_id)


def follow_and_set_back(client: Client, source: Source, *, is_promoted: bool) -> Service:
    """Follow a source, and put an earlier state of it in its place, on another timeline or on the same."""
    data = source.directory / "data"
    source.process.send_signal(signal.SIGINT)
    source.process.wait(BOUND_SECONDS)
    subprocess.run(["cp", "-a", data, source.directory / "earlier"], check=True)
    start_again(source)
    made = follow(client, source)
    append(source, 101)
    source.run("SELECT pg_logical_emit_message(false, 'test', repeat('x', 4 * 1024 * 1024))")
    append(source, 102)
    eventually(lambda: (102,) in shows(made.endpoint.port, _LEDGER), "the rows that the source loses")
    source.kill()
    shutil.rmtree(data)
    (source.directory / "earlier").rename(data)
    if is_promoted:
        (data / "standby.signal").touch()
        shutil.chown(data / "standby.signal", data.stat().st_uid, data.stat().st_gid)
    start_again(source)
    if is_promoted:
        source.run("SELECT pg_promote()")
    return made


def problem(client: Client, service: Service) -> str:
    following = client.get_service(service.service_id).metadata.following
    return "" if following is None else following.problem or ""
