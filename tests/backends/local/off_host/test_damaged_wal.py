"""Damaged WAL in the off-host archive: times before it can be restored, and an error names the newest of them."""

import re
from datetime import datetime

import pytest

from ramet.archive import layout
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.errors import Failed
from ramet.model.timestamps import rfc3339
from tests.backends.local.forks import append, committed_until, now, rows_of
from tests.backends.local.off_host.test_fetch import archive, based, forked_from, ship

__all__ = ["archive"]


def ship_damaged(backend: LocalBackend, archive: LocalArchive, bucket: Bucket, server: Server) -> str:
    """Bring all that was committed into the archive, and damage the last segment there; return its name."""
    ship(backend, archive, server)
    name = max(name for name in WalArchive(bucket, server.service_id).names() if not name.endswith(".history"))
    bucket.write(layout.wal_key(server.service_id, name), b"not a compressed segment")
    return name


def test_a_time_before_a_damaged_segment_is_restored_and_the_report_says_what_was_not_read(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    target = append(backend, parent, 1, 2)[0]
    ship(backend, archive, parent)
    append(backend, parent, 3)
    damaged = ship_damaged(backend, archive, bucket, parent)
    append(backend, parent, 4)
    ship(backend, archive, parent)
    forked = forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == [1]
    assert damaged in forked.capture.facts["archive"]["unread"]


@pytest.mark.parametrize("is_newest", [False, True], ids=["time", "newest"])
def test_the_newest_time_before_a_damaged_segment_is_named_and_can_be_restored(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket, is_newest: bool
) -> None:
    base = based(backend, archive, parent)
    append(backend, parent, 1, 2)
    ship(backend, archive, parent)
    append(backend, parent, 3)
    damaged = ship_damaged(backend, archive, bucket, parent)
    target = None if is_newest else now()
    append(backend, parent, 4)
    ship(backend, archive, parent)
    with pytest.raises(Failed, match=damaged) as refused:
        forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    named = re.search(r"--to (\S+)\)", refused.value.details)
    assert named is not None
    newest = datetime.fromisoformat(named[1])
    assert newest > base.taken_at
    forked = forked_from(backend, archive, Source(parent, target=newest, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == committed_until(backend, parent, newest)
    assert rfc3339(newest) == named[1]


def test_the_loss_of_the_newest_segments_is_noticed(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    base = based(backend, archive, parent)
    target = append(backend, parent, 1, 2)[0]
    ship(backend, archive, parent)
    kept = WalArchive(bucket, parent.service_id).names()
    for number in (3, 4):
        append(backend, parent, number)
        ship(backend, archive, parent)
    lost = sorted(WalArchive(bucket, parent.service_id).names() - kept)
    later = now()
    bucket.delete([layout.wal_key(parent.service_id, name) for name in lost])
    for time in (None, later):
        with pytest.raises(Failed, match=f"has lost WAL segment {lost[0]}") as refused:
            forked_from(backend, archive, Source(parent, target=time, base_backup_id=base.id))
        assert "--to" in refused.value.details
    forked = forked_from(backend, archive, Source(parent, target=target, base_backup_id=base.id))
    assert rows_of(backend, forked.server) == [1]
