"""Snapshots of a service: each a base under its own name, complete in itself, beside a note of what it holds."""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.base_backup import Base
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.syscalls import sync_tree
from ramet.errors import Failed, Unavailable

_log = logging.getLogger(__name__)
_DATA = "data"
_NOTE = "base.json"


def directory_of(paths: ServicePaths, snapshot_id: str) -> Path:
    """Return the directory of a snapshot."""
    return paths.snapshots / snapshot_id


def data_of(paths: ServicePaths, snapshot_id: str) -> Path:
    """Return the tree of a snapshot."""
    return directory_of(paths, snapshot_id) / _DATA


def make(driver: Driver, paths: ServicePaths, snapshot_id: str, copy: Callable[[Path], Base]) -> Base:
    """Make a snapshot with `copy`, which fills the tree whose path it is given; or return the one that is there.

    The snapshot is on disk when this returns, and its name appears last: what a crash leaves half made has another.
    """
    final = paths.snapshots / snapshot_id
    if not final.exists():
        _remove_unfinished(driver, paths, snapshot_id)
        unfinished = files.make_directory(paths.snapshots, _unfinished(snapshot_id))
        base = copy(unfinished / _DATA)
        files.write(unfinished / _NOTE, msgspec.json.encode(base))
        sync_tree(unfinished)
        unfinished.rename(final)
        sync_tree(final)
    return base_of(paths, snapshot_id)


def base_of(paths: ServicePaths, snapshot_id: str) -> Base:
    """Return what a snapshot holds. Raises Failed when its files are gone, or its note is cut short."""
    try:
        return msgspec.json.decode((paths.snapshots / snapshot_id / _NOTE).read_bytes(), type=Base)
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        what = "are gone" if isinstance(error, FileNotFoundError) else f"cannot be used: {_NOTE} is unreadable"
        raise Failed(
            "SNAPSHOT_LOST",
            f"The files of snapshot {snapshot_id} of service {paths.service_id} {what}",
            "Fork the service as of now, or from another moment.",
        ) from error


def in_wal_order(paths: ServicePaths) -> list[tuple[str, Base]]:
    """Return the snapshots of a service by id, in the order of the WAL: clocks may go back."""
    found = ((name, base_of(paths, name)) for name in names(paths))
    return sorted(found, key=lambda each: each[1].facts.wal_order)


def newest(paths: ServicePaths) -> str:
    """Return the id of the newest snapshot. Raises Unavailable while there is none."""
    found = in_wal_order(paths)
    if not found:
        raise Unavailable("NO_SNAPSHOT", f"Service {paths.service_id} has no snapshot, and its server is down")
    return found[-1][0]


def names(paths: ServicePaths) -> list[str]:
    """Return the ids of the snapshots of a service; one whose note cannot be read counts as absent."""
    notes = [note for note in paths.snapshots.glob(f"*/{_NOTE}") if not note.parent.name.startswith(".")]
    return [note.parent.name for note in notes if _is_readable(note)]


def _is_readable(note: Path) -> bool:
    try:
        msgspec.json.decode(note.read_bytes(), type=Base)
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("the note %s of a snapshot cannot be read, which counts as absent: %s", note, error)
        return False
    return True


def drop(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    """Remove a snapshot, also a half made or half removed one. May run twice."""
    _remove_unfinished(driver, paths, snapshot_id)
    final = paths.snapshots / snapshot_id
    if final.exists():
        final.rename(paths.snapshots / _unfinished(snapshot_id))
        _remove_unfinished(driver, paths, snapshot_id)


def drop_all(driver: Driver, paths: ServicePaths) -> None:
    """Remove every snapshot of a service, and what is half made. May run twice."""
    if paths.snapshots.is_dir():
        for path in list(paths.snapshots.iterdir()):
            driver.remove_tree(path)


def _unfinished(snapshot_id: str) -> str:
    return f".{snapshot_id}.unfinished"


def _remove_unfinished(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    driver.remove_tree(paths.snapshots / _unfinished(snapshot_id))
