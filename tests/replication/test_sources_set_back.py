"""A source that has lost WAL sends no commits until it has written as much again: the follower cannot have them."""

import shutil
import signal
import subprocess

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.local.subscriptions.subscriptions import directory_of
from ramet.errors import Failed
from tests.backends.local.forks import paths_of
from tests.followers.conftest import start_again
from tests.replication.subscribed import CHANGES, Follower, backend, follower, source

__all__ = ["backend", "follower", "source"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_IS_AHEAD = "SELECT confirmed_flush_lsn > pg_current_wal_insert_lsn() FROM pg_replication_slots WHERE active"
_WRITE = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 4 * 1024 * 1024))"


def set_back(follower: Follower) -> None:
    """Let the follower receive changes, and put an earlier state of the source in its place."""
    source, data = follower.source, follower.source.directory / "data"
    source.process.send_signal(signal.SIGINT)
    source.process.wait(BOUND_SECONDS)
    subprocess.run(["cp", "-a", data, source.directory / "earlier"], check=True)
    start_again(source)
    source.run(CHANGES)
    source.run(_WRITE)
    eventually(follower.has_all, "the changes")
    source.kill()
    shutil.rmtree(data)
    (source.directory / "earlier").rename(data)
    start_again(source)


def says(follower: Follower, query: str) -> list[tuple[object, ...]]:
    with follower.source.connect() as outside:
        return outside.execute(query.encode()).fetchall()


def test_a_source_that_lost_wal_is_a_problem_for_good_and_is_not_promoted_from(follower: Follower) -> None:
    set_back(follower)
    follower.source.run("INSERT INTO full_identity VALUES (4711)")
    is_refused(follower)  # also where the follower was not connected yet when the promotion began
    (directory_of(paths_of(follower.backend, follower.server)) / "lost_wal").unlink()
    seen = follower.backend.subscriptions.observe(follower.server)
    assert "The source has lost WAL that this service had received" in str(seen.problem)
    assert seen.lag_bytes is None
    follower.source.run(";".join([_WRITE] * 2))
    eventually(lambda: says(follower, _IS_AHEAD) == [(False,)], "the source is ahead")
    assert follower.backend.subscriptions.observe(follower.server) == seen
    is_refused(follower)


def is_refused(follower: Follower) -> None:
    with pytest.raises(Failed, match="Follow the source with a new service") as failed:
        follower.finish()
    assert failed.value.code == "SOURCE_LOST_WAL"
