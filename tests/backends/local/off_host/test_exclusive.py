"""A directory changes its id only while nothing of it goes to the archive, and nothing goes under a wrong name."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.archive.object_store import open_bucket
from ramet.backends.interface.archive import ARCHIVE_BUSY
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.exclusive import check_not_replaced, kept_in_place
from ramet.errors import Failed, Unavailable
from ramet.ids import new_id
from tests.backends.local.segments import DISK_FAULTS, make_unreadable


@pytest.fixture
def archive(backend: LocalBackend, tmp_path: Path) -> LocalArchive:
    (tmp_path / "nas").mkdir()
    return LocalArchive(backend.instances, backend.pool, open_bucket((tmp_path / "nas").as_uri()), "this-installation")


@pytest.mark.parametrize("lock", ["archiving_lock", "uploading_lock"])
def test_a_directory_keeps_its_id_while_it_is_archived(
    backend: LocalBackend, parent: Server, archive: LocalArchive, lock: str
) -> None:
    paths, other_id = backend.instances.paths(parent.service_id), new_id()
    assert not archive.is_sending(parent)
    with files.locked(getattr(paths, lock)):
        assert archive.is_sending(parent)
        with pytest.raises(Unavailable, match="is being written") as raised:
            backend.upgrades.hand_over(parent.service_id, other_id)
        assert raised.value.code == ARCHIVE_BUSY
    assert paths.root.is_dir()
    assert not backend.instances.paths(other_id).root.exists()


def test_nothing_is_sent_of_data_that_has_another_version_than_the_service(
    parent: Server, archive: LocalArchive
) -> None:
    earlier = replace(parent, pg_major=parent.pg_major - 1)
    for act in (
        lambda: archive.maintain(earlier, paused=False, timeout_seconds=1),
        lambda: archive.check(earlier, 1),
    ):
        with pytest.raises(Unavailable, match="has just been upgraded") as raised:
            act()
        assert raised.value.code == ARCHIVE_BUSY
    assert archive.holdings(parent).base_backups == []


def test_data_whose_version_cannot_be_read_fails_for_good(tmp_path: Path) -> None:
    paths = ServicePaths(tmp_path, tmp_path / "sockets")
    paths.data.mkdir()
    (paths.data / "PG_VERSION").write_text("")  # as after a power failure
    with (
        pytest.raises(Failed, match=r"PG_VERSION of service .* names no version"),
        kept_in_place(paths, paths.archiving_lock, 18),
    ):
        pytest.fail("The service is used although its version is unknown")


@pytest.mark.parametrize("number", DISK_FAULTS)
def test_a_replacement_whose_copy_the_disk_cannot_show_is_not_taken_for_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    paths, copy = ServicePaths(tmp_path / "service", tmp_path / "sockets"), tmp_path / "copy"
    for directory in (paths.root, copy):
        directory.mkdir()
    files.write(paths.replaced_by, "copy")
    with pytest.raises(Unavailable, match="is being replaced"):
        check_not_replaced(paths)
    make_unreadable(monkeypatch, copy, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        check_not_replaced(paths)
