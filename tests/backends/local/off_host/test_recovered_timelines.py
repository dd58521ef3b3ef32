"""A service that is recovered under its own id: its WAL never has the name of WAL that the lost server archived."""

from harness.waiting import eventually
from ramet.archive.object_store import Bucket
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host.archive import LocalArchive
from tests.backends.local.forks import append, now, recover, rows_of, run, snapshot
from tests.backends.local.off_host.test_archive import maintain
from tests.backends.local.off_host.test_fetch import archive, based, fetch, ship

__all__ = ["archive"]


def lose_and_recover(backend: LocalBackend, archive: LocalArchive, source: Source) -> int:
    """Destroy a service, bring it back under its id, and return the timeline of its server, which runs."""
    server = source.parent
    backend.servers.destroy(server.service_id)
    fetch(archive, server, source)
    captured = backend.restore.capture(server, source)
    assert captured is not None
    facts = recover(backend, server, captured)
    run(backend, server, first=True)
    timeline = facts["timeline"]
    assert isinstance(timeline, int)
    return timeline


def test_a_service_that_is_lost_twice_gets_a_timeline_that_nobody_has_used(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    append(backend, parent, 1)
    base = based(backend, archive, parent)
    append(backend, parent, 2)
    ship(backend, archive, parent)
    source = Source(parent, base_backup_id=base.id)

    assert lose_and_recover(backend, archive, source) == 2
    append(backend, parent, 3)
    ship(backend, archive, parent)  # no base backup of timeline 2 follows

    assert lose_and_recover(backend, archive, source) == 3
    assert rows_of(backend, parent) == [1, 2]
    append(backend, parent, 4)
    newer = based(backend, archive, parent)
    assert newer.timeline == 3
    assert lose_and_recover(backend, archive, Source(parent, base_backup_id=newer.id)) == 4
    assert rows_of(backend, parent) == [1, 2, 4]


def test_a_clean_base_backup_that_is_the_wanted_state_leaves_its_timeline_too(
    backend: LocalBackend, parent: Server, archive: LocalArchive
) -> None:
    append(backend, parent, 1)
    backend.servers.stop(parent)
    snapshot(backend, parent, paused=True)
    eventually(lambda: maintain(archive, parent, paused=True).base_taken_at is not None)
    target = now()
    run(backend, parent)
    append(backend, parent, 2)
    ship(backend, archive, parent)
    (base,) = archive.holdings(parent).base_backups
    assert lose_and_recover(backend, archive, Source(parent, target=target, base_backup_id=base.id)) == 2
    assert rows_of(backend, parent) == [1]
    append(backend, parent, 3)
    ship(backend, archive, parent)
