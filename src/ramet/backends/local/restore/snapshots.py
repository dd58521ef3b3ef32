"""Snapshots of a service: self-contained base backups, each with a record of its contents."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore.base_backup import NOT_DATA, Base
from ramet.backends.local.volumes.atomic import remove_all
from ramet.backends.local.volumes.driver import NOTHING, Driver, Exclusions
from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.volumes.packed import PackingDriver, unpack_tree
from ramet.backends.local.wal import blank_tail
from ramet.backends.local.wal.locate import WAL_DIRECTORY, live_and_archived, place_history
from ramet.backends.local.wal.segment import segments_in
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import lsn_number

_log = logging.getLogger(__name__)
_DATA = "data"
_NOTE = "base.json"


def directory_of(paths: ServicePaths, snapshot_id: str) -> Path:
    """Return the directory of a snapshot."""
    return paths.snapshots / snapshot_id


def data_of(paths: ServicePaths, snapshot_id: str) -> Path:
    """Return the data directory of a snapshot."""
    return directory_of(paths, snapshot_id) / _DATA


def make(driver: Driver, paths: ServicePaths, snapshot_id: str, copy: Callable[[Driver, Path], Base]) -> Base:
    """Create a snapshot with `copy`, which fills the tree at a given path, or return the existing one.

    It is packed where copies share no blocks. The snapshot is on disk when this returns. It gets its name last: an
    incomplete one has a temporary name.
    """
    final = paths.snapshots / snapshot_id
    if not final.exists():
        _remove_unfinished(driver, paths, snapshot_id)
        unfinished = files.make_directory(paths.snapshots, _unfinished(snapshot_id))
        is_packed = not driver.shares_blocks
        base = copy(PackingDriver(_newest_packed(paths)) if is_packed else driver, unfinished / _DATA)
        _free_blank_tails(paths, base, unfinished / _DATA / WAL_DIRECTORY)
        files.write(unfinished / _NOTE, msgspec.json.encode(replace(base, is_packed=is_packed)))
        # A file is written back before its blocks are shared, and nothing writes into the relations of a snapshot.
        flush_tree(unfinished, None if is_packed else unfinished / _DATA / "base")
        unfinished.rename(final)
        files.flush(paths.snapshots)
    return base_of(paths, snapshot_id)


def _free_blank_tails(paths: ServicePaths, base: Base, wal: Path) -> None:
    """Free the ends of segments without records, whose blocks a snapshot would keep for as long as it exists."""
    for segment in segments_in(wal):
        if base.clean and segment == base.segments[-1]:
            blank_tail.free_behind(wal / segment.name, lsn_number(base.facts.end_lsn) - segment.start)
        else:
            blank_tail.free(wal / segment.name, (place / segment.name for place in reversed(live_and_archived(paths))))


def _newest_packed(paths: ServicePaths) -> Path | None:
    return next((data_of(paths, name) for name, base in reversed(in_wal_order(paths)) if base.is_packed), None)


def copy_data(
    driver: Driver, paths: ServicePaths, snapshot_id: str, target: Path, exclusions: Exclusions = NOTHING
) -> Base:
    """Make `target` a copy of the data directory of a snapshot, and return its record; see Driver.clone_tree.

    It has the history of its timeline, which snapshots of earlier releases lack.
    """
    base, source = base_of(paths, snapshot_id), data_of(paths, snapshot_id)
    if base.is_packed:
        unpack_tree(source, target, exclusions, base.facts.size_bytes)
    else:
        driver.clone_tree(source, target, exclusions)
    place_history(base.facts.timeline, [source / WAL_DIRECTORY, *live_and_archived(paths)], target)
    return base


def copied_bytes(driver: Driver, paths: ServicePaths, snapshot_id: str) -> int:
    """Return what a copy of a snapshot would take from the storage now; 0 where it is missing."""
    tree = data_of(paths, snapshot_id)
    if not tree.is_dir():
        return 0
    base = base_of(paths, snapshot_id)
    return base.facts.size_bytes if base.is_packed else driver.estimate_bytes(tree, NOT_DATA)


def record(paths: ServicePaths, snapshot_id: str, base: Base) -> None:
    """Write the record of a snapshot whose files are complete: from now on it is one."""
    files.write(directory_of(paths, snapshot_id) / _NOTE, msgspec.json.encode(base), durable=True)


def base_of(paths: ServicePaths, snapshot_id: str) -> Base:
    """Return the record of a snapshot. Raises Failed when its files are missing, or the record is truncated."""
    try:
        return msgspec.json.decode(files.read_bytes(paths.snapshots / snapshot_id / _NOTE), type=Base)
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        what = "are missing" if isinstance(error, FileNotFoundError) else f"cannot be used: {_NOTE} is unreadable"
        raise Failed(
            "SNAPSHOT_LOST",
            f"The files of snapshot {snapshot_id} of service {paths.service_id} {what}",
            "Use fork_strategy NOW, or another target_time.",
        ) from error


def in_wal_order(paths: ServicePaths) -> list[tuple[str, Base]]:
    """Return the snapshots of a service by id, in the order of the WAL, because clocks may be set back.

    Those whose record cannot be read are left out, also because another process is removing them just now.
    """
    return sorted(_recorded(paths), key=lambda each: each[1].facts.wal_order)


def newest(paths: ServicePaths) -> str:
    """Return the id of the newest snapshot. Raises Unavailable while there is none."""
    found = in_wal_order(paths)
    if not found:
        raise Unavailable("NO_SNAPSHOT", f"Service {paths.service_id} has no snapshot, and its server does not run")
    return found[-1][0]


def _recorded(paths: ServicePaths) -> Iterator[tuple[str, Base]]:
    for note in paths.snapshots.glob(f"*/{_NOTE}"):
        if note.parent.name.startswith("."):
            continue
        try:
            yield note.parent.name, msgspec.json.decode(files.read_bytes(note), type=Base)
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("ignored a snapshot, because its record %s cannot be read: %s", note, error)


def drop(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    """Remove a snapshot, even an incomplete one. May run twice."""
    _remove_unfinished(driver, paths, snapshot_id)
    final = paths.snapshots / snapshot_id
    if final.exists():
        final.rename(paths.snapshots / _unfinished(snapshot_id))
        _remove_unfinished(driver, paths, snapshot_id)


def drop_all(driver: Driver, paths: ServicePaths) -> None:
    """Remove all snapshots of a service, even incomplete ones. May run twice."""
    if paths.snapshots.is_dir():
        remove_all(*(partial(driver.remove_tree, path) for path in list(paths.snapshots.iterdir())))


def _unfinished(snapshot_id: str) -> str:
    return f".{snapshot_id}.unfinished"


def _remove_unfinished(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    driver.remove_tree(paths.snapshots / _unfinished(snapshot_id))
