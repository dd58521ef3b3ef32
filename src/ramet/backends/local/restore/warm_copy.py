"""Prepared copies of snapshots: recovered and cleanly shut down, so that a fork starts without recovery.

The record of a prepared copy is written last and removed first: a fork that still finds it after copying has copied all
of it.

A spare is a copy of the prepared copy that the next fork only has to move. It is never flushed to disk, and is valid
only until the host is rebooted. There are as many spares as forks are requested at once.
"""

import errno
import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import MOST_SPARES, Capture, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import recovery, snapshots
from ramet.backends.local.restore.base_backup import Base, captured
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.wal.locate import WAL_DIRECTORY, check_segment
from ramet.backends.local.wal.segment import segment_at
from ramet.machine.processes import boot_id
from ramet.model.snapshot import lsn_number

# In a capture's facts: it is a copy of a prepared copy.
PREPARED = "prepared"
_TREE = "prepared"
_NOTE = "prepared.json"
_UNFINISHED = "prepared.unfinished"
_LOG = "prepare.log"
_SPARE = "spare-"


@dataclass(frozen=True)
class _Prepared:
    """The shutdown checkpoint of a prepared copy, and the last transaction in it."""

    checkpoint_lsn: str
    timeline: int
    system_identifier: int
    last_commit_time: str | None


def prepare(
    instances: Instances, driver: Driver, server: Server, snapshot_id: str, timeout_seconds: float, spares: int
) -> str | None:
    """Prepare a snapshot; return None when that is done, else a text that changes with the progress.

    The caller keeps the snapshot from being removed. One call creates one of the `spares`. Raises Failed when the
    snapshot cannot be recovered. Concurrent calls, in any process, wait for each other.
    """
    paths, directory = _places(instances, server, snapshot_id)
    base = snapshots.base_of(paths, snapshot_id)
    if base.clean:
        return None
    with _locked(directory):
        return _prepare(instances, driver, server, base, directory, timeout_seconds, spares)


def _prepare(
    instances: Instances,
    driver: Driver,
    server: Server,
    base: Base,
    directory: Path,
    timeout_seconds: float,
    spares: int,
) -> str | None:
    paths = instances.paths(server.service_id)
    if _noted(directory) is not None:
        return _add_spare(driver, directory, spares)
    unfinished = directory / _UNFINISHED
    if not unfinished.exists():
        snapshots.copy_data(driver, paths, directory.name, unfinished)
    instances.make_sockets(paths)
    installation = instances.installations.of(server.pg_major)
    place = SingleUser(unfinished, paths.config_file, directory / _LOG, installation, instances.account)
    found = recovery.recovered(place, captured(base), timeout_seconds)
    if isinstance(found, str):
        return found
    control, facts = found
    unfinished.rename(directory / _TREE)
    flush_tree(directory)
    note = _Prepared(control.checkpoint_lsn, control.timeline, control.system_identifier, facts["last_commit_time"])
    files.write(directory / _NOTE, json.dumps(asdict(note)))
    return _add_spare(driver, directory, spares)


def _add_spare(driver: Driver, directory: Path, wanted: int) -> str | None:
    """Create one more spare if moving is faster than copying, and remove invalid ones; say how many are missing."""
    places = _places_of_spares(directory)
    _drop_spares(driver, directory, besides=places)
    missing = [] if driver.atomic else [place for place in places[:wanted] if not place.exists()]
    if missing:
        driver.clone_tree(directory / _TREE, missing[0])
    return f"{len(missing) - 1} of {wanted} spare copies are still to be created" if len(missing) > 1 else None


def _drop_spares(driver: Driver, directory: Path, besides: Sequence[Path] = ()) -> None:
    for path in directory.glob(f"{_SPARE}*"):
        if path not in besides:
            driver.remove_tree(path)


def _places_of_spares(directory: Path) -> list[Path]:
    return [directory / f"{_SPARE}{boot_id()}-{number}" for number in range(MOST_SPARES)]


def drop(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    """Remove the prepared copy of a snapshot, even an incomplete one. May run twice."""
    directory = snapshots.directory_of(paths, snapshot_id)
    if not directory.is_dir():
        return
    with _locked(directory):
        (directory / _NOTE).unlink(missing_ok=True)
        for name in (_TREE, _UNFINISHED):
            driver.remove_tree(directory / name)
        _drop_spares(driver, directory)


def _locked(directory: Path) -> AbstractContextManager[None]:
    """Prevent others from changing the prepared copies of a snapshot; forks use them without taking this lock."""
    return files.locked(directory, flags=os.O_DIRECTORY)


def capture(driver: Driver, paths: ServicePaths, snapshot_id: str, data: Path) -> Capture | None:
    """Fill the new tree `data` from the prepared copy of a snapshot; None when there is none."""
    directory = snapshots.directory_of(paths, snapshot_id)
    found = _noted(directory)
    if found is None:
        return None
    try:
        _move_or_copy(driver, directory, data)
    except FileNotFoundError:
        return None
    if _noted(directory) != found:
        driver.remove_tree(data)
        return None
    segment = segment_at(found.timeline, found.checkpoint_lsn)
    check_segment(
        data / WAL_DIRECTORY / segment.name, segment, found.system_identifier, lsn_number(found.checkpoint_lsn)
    )
    facts: dict[str, Any] = captured(snapshots.base_of(paths, snapshot_id)).facts
    return Capture(None, {**facts, "clean": True, PREPARED: True, "last_commit_time": found.last_commit_time})


def _move_or_copy(driver: Driver, directory: Path, data: Path) -> None:
    for spare in _places_of_spares(directory):
        try:
            spare.rename(data)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.EXDEV:  # the fork has another quota
                break
            raise
        else:
            return
    driver.clone_tree(directory / _TREE, data)


def _places(instances: Instances, server: Server, snapshot_id: str) -> tuple[ServicePaths, Path]:
    paths = instances.paths(server.service_id)
    return paths, snapshots.directory_of(paths, snapshot_id)


def _noted(directory: Path) -> _Prepared | None:
    try:
        return _Prepared(**json.loads((directory / _NOTE).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
