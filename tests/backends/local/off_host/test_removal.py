"""All that the archive has of a service is removed, also while the service is archived again."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.errors import Unavailable
from tests.backends.local.forks import paths_of, snapshot
from tests.backends.local.hosts import new_server
from tests.backends.local.off_host.test_archive import archive, archived, maintain

__all__ = ["archive"]


def test_what_was_removed_is_sent_again_when_the_service_is_archived_again(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket
) -> None:
    snapshot(backend, parent)
    archived(archive, parent)
    archive.remove(parent)
    assert list(bucket.objects(f"{parent.service_id}/")) == []
    archived(archive, parent)
    archive.check(parent, 1 << 40)
    assert maintain(archive, parent).problem is None
    assert len(BaseBackups(bucket, parent.service_id).complete()) == 1


@pytest.mark.parametrize("lock_of", [attrgetter("archiving_lock"), attrgetter("uploading_lock")])
def test_nothing_is_removed_while_something_is_sent(
    backend: LocalBackend, archive: LocalArchive, bucket: Bucket, lock_of: Callable[[ServicePaths], Path]
) -> None:
    server = new_server(backend.instances)
    backend.instances.make_directories(server)
    paths = paths_of(backend, server)
    paths.data.mkdir(exist_ok=True)
    (paths.data / "PG_VERSION").write_text(f"{server.pg_major}\n")
    bucket.write(layout.end_key(server.service_id), b"")
    with files.locked(lock_of(paths)), pytest.raises(Unavailable, match="Other work uses the archive"):
        archive.remove(server)
    assert bucket.read(layout.end_key(server.service_id)) is not None


def test_nothing_is_sent_while_all_is_removed(
    backend: LocalBackend,
    parent: Server,
    archive: LocalArchive,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot(backend, parent)
    archived(archive, parent)
    delete = Bucket.delete

    def delete_while_it_is_switched_on(found: Bucket, keys: list[str]) -> None:
        with pytest.raises(Unavailable, match="Other work uses the archive"):
            archive.maintain(parent, paused=False, timeout_seconds=60)
        delete(found, keys)

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "delete", delete_while_it_is_switched_on)
        archive.remove(parent)
    archived(archive, parent)
    assert len(BaseBackups(bucket, parent.service_id).complete()) == 1
