"""Services that were rewound, recovered from the off-host archive: base backups are made of their first snapshot."""

import pytest

from harness.waiting import eventually
from ramet.archive import layout
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.progress import WalProgress, read_progress
from ramet.backends.local.restore import snapshots
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.backends.local.wal.segment import Segment, segments_in
from tests.backends.local.forks import append, paths_of, rows_of, run, snapshot
from tests.backends.local.off_host.test_archive import switch
from tests.backends.local.off_host.test_fetch import archive, based, forked_from, ship
from tests.backends.local.rewinds import rewind

__all__ = ["archive"]
HISTORY = "00000002.history"


def rewound(backend: LocalBackend, server: Server) -> str:
    """Rewind a service to a snapshot that was taken while it was stopped; return the id of its first snapshot."""
    append(backend, server, 1)
    backend.servers.stop(server)
    checkpoint, _ = snapshot(backend, server, paused=True)
    run(backend, server)
    append(backend, server, 2)
    return rewind(backend, server, checkpoint)


def newest_base(backend: LocalBackend, archive: LocalArchive, server: Server) -> str:
    """Bring all that was committed since a rewind into the archive; return the id of the base backup for it."""
    switch(backend, server)

    def is_archived() -> bool:
        return archive.maintain(server, paused=False, timeout_seconds=60).problem is None

    eventually(is_archived)
    base = archive.holdings(server).base_backups[-1]
    assert base.timeline == int(HISTORY[:8])
    return base.id


@pytest.mark.parametrize("lacking", ["base backup", "archive"])
def test_a_rewound_service_is_recovered_from_its_first_base_backup(
    backend: LocalBackend,
    parent: Server,
    archive: LocalArchive,
    bucket: Bucket,
    lacking: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    based(backend, archive, parent)
    first, paths = rewound(backend, parent), paths_of(backend, parent)
    if lacking == "base backup":  # as one of an earlier release
        (snapshots.data_of(paths, first) / WAL_DIRECTORY / HISTORY).unlink()
    target = append(backend, parent, 3)[0]
    append(backend, parent, 4)
    with monkeypatch.context() as patched:
        if lacking == "base backup":
            patched.setattr(snapshots, "place_history", lambda *_: None)
        base = newest_base(backend, archive, parent)
    assert HISTORY in WalArchive(bucket, parent.service_id).names()
    if lacking == "archive":
        bucket.delete([layout.wal_key(parent.service_id, HISTORY)])
    to_target = Source(parent, target=target, base_backup_id=base)
    assert rows_of(backend, forked_from(backend, archive, to_target).server) == [1, 3]
    to_the_end = Source(parent, base_backup_id=base)
    assert rows_of(backend, forked_from(backend, archive, to_the_end).server) == [1, 3, 4]


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("boots", [False, True], ids=["rewind", "restore"])
def test_a_service_that_returned_to_an_earlier_lsn_has_a_hole_only_where_its_own_wal_was_lost(
    backend: LocalBackend, parent: Server, archive: LocalArchive, boots: bool, is_lost: bool
) -> None:
    based(backend, archive, parent)
    kept, _ = snapshot(backend, parent)
    for number in (1, 2, 3):
        append(backend, parent, number)
        ship(backend, archive, parent)
    paths, first = paths_of(backend, parent), rewind(backend, parent, kept, boots=boots)
    for number in (4, 5):
        append(backend, parent, number)
        switch(backend, parent)
    own = snapshots.base_of(paths, first).segments[0]
    following = Segment(own.timeline, own.number + 1)
    assert [segment for segment in segments_in(paths.archive) if segment.timeline == 2] == [own, following]
    if is_lost:
        (paths.archive / own.name).unlink()
    archive.maintain(parent, paused=False, timeout_seconds=60)
    progress = read_progress(paths, WalProgress)
    assert progress.segment == following.name
    assert [(hole.first, hole.following) for hole in progress.holes] == [(own.name, following.name)] * is_lost
