"""What every backend restores: forks of now, of a snapshot and of a past time."""

from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Source
from ramet.errors import Unavailable
from ramet.ids import new_id
from tests.backends.contract.grounds import Ground


def after(restore_time: datetime) -> datetime:
    """Wait until a time is over, and return a later one."""
    eventually(lambda: datetime.now(UTC) > restore_time)
    return datetime.now(UTC)


def test_a_fork_of_now_has_all_that_was_committed_and_goes_its_own_way(ground: Ground) -> None:
    parent = ground.create("one", "two")
    child = ground.fork(Source(parent))
    assert ground.client.values(child) == ["one", "two"]
    ground.client.commit(child, "three")
    ground.client.commit(parent, "four")
    assert ground.client.values(parent) == ["one", "two", "four"]
    assert ground.client.values(child) == ["one", "two", "three"]


def test_a_fork_of_a_snapshot_has_what_was_committed_before_it(ground: Ground) -> None:
    parent = ground.create("one")
    snapshot_id, facts = ground.snapshot(parent)
    ground.client.commit(parent, "two")
    assert ground.client.values(ground.fork(Source(parent, snapshot_id=snapshot_id))) == ["one"]
    assert facts.size_bytes > 0


def test_a_fork_of_a_past_time_has_what_was_committed_until_then(ground: Ground) -> None:
    parent = ground.create()
    snapshot_id, _ = ground.snapshot(parent)
    target = after(ground.client.commit(parent, "one"))
    after(target)
    ground.client.commit(parent, "two")
    child = ground.fork(Source(parent, snapshot_id=snapshot_id, target=target))
    assert ground.client.values(child) == ["one"]


def test_a_fork_has_new_credentials_and_outlives_its_parent(ground: Ground) -> None:
    parent = ground.create("one")
    child, servers = ground.fork(Source(parent)), ground.backend.servers
    assert servers.has_password(child, ground.passwords[child.service_id])
    assert not servers.has_password(child, ground.passwords[parent.service_id])
    servers.destroy(parent.service_id)
    servers.stop(child)
    ground.boot(child, clients=True)
    assert ground.client.values(child) == ["one"]


def test_a_paused_parent_is_forked_and_stays_stopped(ground: Ground) -> None:
    parent = ground.create("one")
    ground.backend.servers.stop(parent)
    assert ground.client.values(ground.fork(Source(parent, paused=True))) == ["one"]
    assert not ground.backend.servers.inspect(parent).serving


def test_capture_and_recovery_may_run_twice(ground: Ground) -> None:
    parent, child, restore = ground.create("one"), ground.new_server(), ground.backend.restore
    first, second = (restore.capture(child, Source(parent)) for _ in range(2))
    assert first is not None
    assert first == second
    for _ in range(2):
        eventually(lambda: restore.recover(child, first, 0.5).facts is not None)


def test_a_fork_is_reported_on_with_and_without_its_parent(ground: Ground) -> None:
    parent = ground.create("one")
    child = ground.fork(Source(parent))
    assert ground.backend.restore.report_on_fork(child, parent.service_id)["unlogged_tables"] == []
    assert ground.backend.restore.report_on_fork(child, None)["unlogged_tables"] == []


def test_statistics_and_data_of_a_fork_are_read_in_the_background(ground: Ground) -> None:
    child, restore = ground.fork(Source(ground.create("one"))), ground.backend.restore
    eventually(lambda: restore.analyze(child, 0.5) == "collected", seconds=60)
    eventually(lambda: restore.verify_data(child, 0.5) == "", seconds=60)


def test_no_statistics_are_collected_of_a_server_that_does_not_run(ground: Ground) -> None:
    server = ground.create("one")
    ground.backend.servers.stop(server)
    with pytest.raises(Unavailable):
        ground.backend.restore.analyze(server, 0.5)


def test_a_snapshot_is_taken_once_and_deleted_once(ground: Ground) -> None:
    server, restore = ground.create("one"), ground.backend.restore
    snapshot_id, _ = ground.snapshot(server)
    assert restore.take_snapshot(server, snapshot_id, paused=False) is not None
    assert restore.snapshot_ids(server.service_id) == frozenset({snapshot_id})
    for _ in range(2):
        restore.delete_snapshot(server.service_id, snapshot_id)
    assert restore.snapshot_ids(server.service_id) == frozenset()


def test_a_snapshot_of_a_stopped_server_is_taken_only_where_it_is_paused(ground: Ground) -> None:
    server, restore = ground.create("one"), ground.backend.restore
    ground.backend.servers.stop(server)
    assert restore.take_snapshot(server, new_id(), paused=False) is None
    snapshot_id, _ = ground.snapshot(server, paused=True)
    assert ground.client.values(ground.fork(Source(server, paused=True, snapshot_id=snapshot_id))) == ["one"]


def test_snapshots_are_in_the_order_in_which_they_were_taken(ground: Ground) -> None:
    server = ground.create("one")
    first = ground.snapshot(server)[1]
    ground.client.commit(server, "two")
    assert first.wal_order < ground.snapshot(server)[1].wal_order


def test_a_prepared_snapshot_is_forked_like_any_other(ground: Ground) -> None:
    server, restore = ground.create("one"), ground.backend.restore
    snapshot_id, _ = ground.snapshot(server)
    eventually(lambda: restore.prepare_snapshot(server, snapshot_id, 0.5, 2) is None, seconds=60)
    assert ground.client.values(ground.fork(Source(server, snapshot_id=snapshot_id))) == ["one"]
    for _ in range(2):
        restore.discard_preparation(server.service_id, snapshot_id)
    assert ground.client.values(ground.fork(Source(server, snapshot_id=snapshot_id))) == ["one"]


def test_what_was_written_since_a_snapshot_is_known_while_the_server_serves(ground: Ground) -> None:
    server, restore = ground.create("one"), ground.backend.restore
    facts, mark_of = ground.snapshot(server)[1], ground.backend.replication.commit_mark
    eventually(lambda: mark_of(server) is not None)
    mark = mark_of(server)
    assert (restore.written_since(server, facts), mark_of(server)) == (0, mark)
    ground.client.commit(server, "two")
    assert (restore.written_since(server, facts) or 0) > 0
    assert mark_of(server) != mark
    ground.backend.servers.stop(server)
    assert (restore.written_since(server, facts), mark_of(server)) == (None, None)


def test_an_archive_without_damage_is_verified_to_its_end(ground: Ground) -> None:
    server, restore = ground.create("one"), ground.backend.restore
    ground.snapshot(server)
    at: str | None = ""
    while at is not None:
        at = restore.verify_archive(server.service_id, at)


def test_there_is_room_for_a_fork_and_for_a_replica(ground: Ground) -> None:
    parent = ground.create("one")
    snapshot_id, facts = ground.snapshot(parent)
    ground.backend.restore.check_fork(Source(parent), None)
    ground.backend.restore.check_fork(Source(parent, snapshot_id=snapshot_id), facts.taken_at)
    ground.backend.replicas.check_room(parent)


def test_after_wal_was_discarded_forks_of_what_is_kept_have_no_gap(ground: Ground) -> None:
    parent, restore = ground.create("one"), ground.backend.restore
    dropped, _ = ground.snapshot(parent)
    ground.client.commit(parent, "two")
    kept, facts = ground.snapshot(parent)
    restore.delete_snapshot(parent.service_id, dropped)
    for _ in range(2):
        restore.discard_wal(parent.service_id, facts)
    target = after(ground.client.commit(parent, "three"))
    assert list(restore.gaps(parent.service_id, [ground.recorded(parent, kept, facts)])) == []
    child = ground.fork(Source(parent, snapshot_id=kept, target=target))
    assert ground.client.values(child) == ["one", "two", "three"]
