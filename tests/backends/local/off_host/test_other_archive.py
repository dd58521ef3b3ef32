"""Another RAMET_ARCHIVE_URL: the archive there gets all that this host still has, whatever was sent elsewhere."""

import pytest

from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket, open_bucket
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host import archive as off_host
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.digests import sent_digests
from tests.backends.local.forks import append, paths_of, snapshot
from tests.backends.local.off_host.test_archive import archived, switch


@pytest.mark.parametrize("has_base", [False, True])
def test_wal_that_was_sent_elsewhere_is_sent_to_another_archive(
    backend: LocalBackend, parent: Server, bucket: Bucket, has_base: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = LocalArchive(backend.instances, backend.pool, bucket, "this-installation")
    snapshot(backend, parent)
    append(backend, parent, 1)
    switch(backend, parent)
    if has_base:
        archived(first, parent)
    else:
        with monkeypatch.context() as patched:
            patched.setattr(off_host, "is_due", lambda *_: False)  # the upload has not come far
            first.maintain(parent, paused=False, timeout_seconds=60)
    sent = WalArchive(bucket, parent.service_id).names()
    assert sent
    other = open_bucket(f"{bucket.url}/other")
    second = LocalArchive(backend.instances, backend.pool, other, "this-installation")
    archived(second, parent)
    there = WalArchive(other, parent.service_id).names()
    assert sent <= there
    assert set(sent_digests(paths_of(backend, parent))) == there
    assert len(BaseBackups(other, parent.service_id).complete()) == 1
