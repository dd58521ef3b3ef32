"""Uploads of base backups that are interrupted: what they continue with."""

from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host import base_uploads
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.progress import BaseProgress, read_progress
from ramet.backends.local.volumes.flush import flush_tree
from ramet.errors import Unavailable
from tests.backends.local.forks import append, paths_of, snapshot
from tests.backends.local.off_host.test_archive import archive, archived

__all__ = ["archive"]


def test_a_base_backup_continues_after_a_restart_with_the_same_snapshot(
    backend: LocalBackend, parent: Server, archive: LocalArchive, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(backend, parent, 1)
    snapshot(backend, parent)

    def fails(*_arguments: object) -> None:
        raise Unavailable("ARCHIVE_UNAVAILABLE", "The archive does not answer")

    problems = list[str | None]()

    def has_failed() -> bool:
        state = archive.maintain(parent, paused=False, timeout_seconds=60)
        problems.append(state.problem)
        return "does not answer" in (state.problem or "")

    with monkeypatch.context() as patched:
        patched.setattr(BaseBackups, "verify_part", fails)
        eventually(has_failed)
    assert "has no complete base backup" in (problems[0] or "")
    uploaded = {found.key for found in bucket.objects(layout.base_prefix(parent.service_id))}
    assert BaseBackups(bucket, parent.service_id).complete() == []
    snapshot(backend, parent)
    again = LocalArchive(backend.instances, backend.pool, bucket, "this-installation")
    archived(again, parent)
    (info,) = BaseBackups(bucket, parent.service_id).complete()
    assert uploaded < {found.key for found in bucket.objects(layout.base_prefix(parent.service_id))}
    assert uploaded
    assert all(info.backup_id in key for key in uploaded)
    assert not (paths_of(backend, parent).root / "upload").exists()


def test_what_is_uploaded_is_on_disk_before_an_upload_may_continue_with_it(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(backend, parent)
    paths, flushed = paths_of(backend, parent), list[tuple[bool, str | None]]()

    def flushes(path: Path, written_back: Path | None) -> None:
        flush_tree(path, written_back)
        is_copied = any(path.glob("*/PG_VERSION"))
        flushed.append((is_copied, read_progress(paths, BaseProgress).snapshot_id))

    monkeypatch.setattr(base_uploads, "flush_tree", flushes)
    archived(archive, parent)
    assert flushed == [(True, None)]
