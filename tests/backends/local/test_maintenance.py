"""The regular work on a real server."""

import os
import time

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process.log_files import KEPT_SECONDS
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.segment import segments_in
from tests.backends.local.forks import append, paths_of, snapshot


def test_what_was_archived_has_checksums_after_maintenance(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived = [segment.name for segment in segments_in(paths.archive)]
    assert archived
    backend.servers.maintain(parent, 10.0)
    assert set(archived) <= set(digests.digests(paths))


def test_a_short_budget_is_made_up_for_by_the_next_calls(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    for number in range(3):
        append(backend, parent, number)
        snapshot(backend, parent)
    for _ in range(2 * len(segments_in(paths.archive))):
        backend.servers.maintain(parent, 1e-4)
    assert {segment.name for segment in segments_in(paths.archive)} <= set(digests.digests(paths))


def test_maintenance_removes_log_files_that_are_too_old(backend: LocalBackend, parent: Server) -> None:
    log = paths_of(backend, parent).log
    old = log / "server-2000-01-01_000000.json"
    old.touch()
    long_ago = time.time() - 2 * KEPT_SECONDS
    os.utime(old, (long_ago, long_ago))
    backend.servers.maintain(parent, 0.5)
    assert not old.exists()
