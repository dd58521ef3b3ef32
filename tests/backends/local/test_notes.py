"""What Ramet reads in directories of the servers' user, who could put a link or a pipe in its place."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ramet.backends.local.followers import slot
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.base_uploads import BaseUpload
from ramet.backends.local.off_host.exclusive import kept_in_place
from ramet.backends.local.off_host.progress import WalProgress, read_progress
from ramet.backends.local.process import identity, postgres
from ramet.backends.local.restore import capture, prepared_copy, recovery, secured_copy, snapshots
from ramet.backends.local.restore.fetched import Place
from ramet.backends.local.restore.offline_verifier import has_verifier
from ramet.backends.local.sql import carried_passwords, connections, extensions
from ramet.backends.local.subscriptions import subscriptions
from ramet.backends.local.upgrades import survey
from ramet.backends.local.wal import control_file, digests
from ramet.backends.local.wal.segment import Segment, fault_of
from ramet.errors import Failed, Unavailable
from ramet.model.secret import Secret

_VERSION = "data/PG_VERSION"
_SEGMENT = Segment(1, 1)


def _hold(paths: ServicePaths) -> None:
    with kept_in_place(paths, paths.archiving_lock, 18):
        raise AssertionError("never held")


def _subscription(paths: ServicePaths) -> Any:
    return subscriptions.LocalSubscriptions._kept(cast(Any, None), paths)


# Each with what it does where there is no file: the value that it returns, or the error that it raises.
_READERS: list[tuple[str, Callable[[ServicePaths], Any], Any]] = [
    ("capture.json", capture.read_capture, Failed),
    ("capture.json", capture.check_boot, Failed),
    ("snapshots/s/base.json", lambda paths: snapshots.base_of(paths, "s"), Failed),
    ("prepared.json", lambda paths: prepared_copy._noted(paths.root), None),
    ("secured.json", lambda paths: secured_copy.noted(paths.root), None),
    ("fetch.json", lambda paths: Place(paths.root, paths).read(), None),
    ("log/recovery.log", lambda paths: recovery.has_found_no_subscription(paths.recovery_log), False),
    ("data/global/pg_control", lambda paths: control_file.read_max_prepared_transactions(paths.data), 0),
    ("data/pg_authid", lambda paths: has_verifier(paths.data / "pg_authid", Secret("x")), FileNotFoundError),
    (_VERSION, connections._major, Unavailable),
    (_VERSION, _hold, FileNotFoundError),
    ("data/postmaster.pid", identity._locked_by, None),
    ("data/postmaster.pid", lambda paths: postgres._state(paths.pid_file, 1), b""),
    ("process.json", lambda paths: identity.recorded_in(paths.process_record), None),
    ("passwords.json", lambda paths: carried_passwords.apply(paths, paths), None),
    ("extensions.json", lambda paths: extensions._remembered(paths.root / "extensions.json"), []),
    ("slot.json", lambda paths: slot._read(paths.root), None),
    ("subscription/source.json", _subscription, Failed),
    ("upgrade/survey-18.json", lambda paths: survey.made(paths, 18), None),
    ("off_host_wal.json", lambda paths: read_progress(paths, WalProgress), WalProgress()),
    (f"archive/{_SEGMENT.name}", lambda paths: digests.digest_of(paths.archive / _SEGMENT.name), FileNotFoundError),
    (f"archive/{_SEGMENT.name}", lambda paths: fault_of(paths.archive / _SEGMENT.name, _SEGMENT, 1), FileNotFoundError),
]


@pytest.mark.parametrize(("name", "read", "without"), _READERS, ids=[name for name, _, _ in _READERS])
def test_no_link_and_no_pipe_is_read(
    tmp_path: Path, name: str, read: Callable[[ServicePaths], Any], without: Any
) -> None:
    paths, version = ServicePaths(tmp_path / "a", tmp_path), tmp_path / "version"
    version.write_text("18\n")
    place = paths.root / name
    place.parent.mkdir(parents=True)
    place.symlink_to(version if name == _VERSION else tmp_path)
    assert _outcome(read, paths) == without
    place.unlink()
    os.mkfifo(place)
    assert _outcome(read, paths) == without


def _outcome(read: Callable[[ServicePaths], Any], paths: ServicePaths) -> Any:
    try:
        return read(paths)
    except (Failed, Unavailable, FileNotFoundError) as error:
        return type(error)


def test_no_base_backup_is_sent_with_what_a_link_leads_to(tmp_path: Path) -> None:
    paths = ServicePaths(tmp_path / "a", tmp_path)
    (paths.snapshots / "s").mkdir(parents=True)
    (tmp_path / "secret").write_text("a secret")
    (paths.snapshots / "s/base.json").symlink_to(tmp_path / "secret")
    driver = cast(Any, SimpleNamespace(remove_tree=lambda _: None))
    with pytest.raises(FileNotFoundError, match="Not a file"):
        BaseUpload(paths, driver, cast(Any, None), cast(Any, None))._begin("s")
    assert list((paths.root / "upload").iterdir()) == []
