"""The regular work on a real server."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.segment import segments_in
from tests.backends.local.forks import append, paths_of, snapshot


def test_what_was_archived_has_checksums_after_maintenance(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived = [segment.name for segment in segments_in(paths.archive)]
    assert archived
    backend.servers.maintain(parent, 10.0, datetime.now(UTC))
    assert set(archived) <= set(digests.digests(paths))


def test_a_short_budget_is_made_up_for_by_the_next_calls(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    for number in range(3):
        append(backend, parent, number)
        snapshot(backend, parent)
    for _ in range(2 * len(segments_in(paths.archive))):
        backend.servers.maintain(parent, 1e-4, datetime.now(UTC))
    assert {segment.name for segment in segments_in(paths.archive)} <= set(digests.digests(paths))


@pytest.mark.parametrize(("days", "is_kept"), [(13, True), (15, False)])
def test_log_files_are_too_old_by_the_time_that_maintenance_is_given(
    backend: LocalBackend, parent: Server, days: int, is_kept: bool
) -> None:
    log, now = paths_of(backend, parent).log, datetime.now(UTC)
    rotated, long_ago = log / "server-2000-01-01_000000.json", (now - timedelta(days=365)).timestamp()
    rotated.touch()
    os.utime(rotated, (long_ago, long_ago))
    backend.servers.maintain(parent, 0.5, datetime.fromtimestamp(long_ago, UTC) + timedelta(days=days))
    assert rotated.exists() == is_kept
