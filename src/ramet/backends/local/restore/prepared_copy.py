"""Prepared copies of snapshots: recovered and cleanly shut down, so that a fork starts without recovery.

The record of a prepared copy is written last and removed first: a fork that still finds it after copying has copied all
of it. Where forks are likely, there is a secured copy of it too (`secured_copy`), and as many spares as forks are
requested at once.
"""

import json
import os
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from ramet.backends.interface.values import Capture, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import recovery, secured_copy, snapshots
from ramet.backends.local.restore.base_backup import Base, capture_of_base, facts_of
from ramet.backends.local.restore.secured_copy import Secured
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.restore.spares import Spares
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
_UNFINISHED = "prepared.{}.unfinished"
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
    paths = instances.paths(server.service_id)
    directory = snapshots.directory_of(paths, snapshot_id)
    base = snapshots.base_of(paths, snapshot_id)
    if base.clean:
        return None
    with _locked(directory):
        if _noted(directory) is None:
            progress = _recover(instances, driver, server, base, directory, timeout_seconds)
            if progress is not None:
                return progress
        plain = _spares_in(directory)
        progress = plain.add(driver, 1)  # for what is not secured as a fork, such as a rewind
        if not spares:
            return progress
        if secured_copy.make(instances, driver, server, directory / _TREE):
            return secured_copy.spares_in(directory).add(driver, spares)
        return plain.add(driver, spares)


def _recover(
    instances: Instances, driver: Driver, server: Server, base: Base, directory: Path, timeout_seconds: float
) -> str | None:
    """Make the prepared copy; return None when it is complete, else a text that changes with the progress.

    Recovery flushes nothing, so what it wrote before the host was restarted is not continued.
    """
    paths = instances.paths(server.service_id)
    unfinished = directory / _UNFINISHED.format(boot_id())
    _remove_incomplete(driver, directory, besides=unfinished)
    if not unfinished.exists():
        snapshots.copy_data(driver, paths, directory.name, unfinished)
    instances.config.make_sockets(paths)
    installation = instances.installation_of(server)
    place = SingleUser(paths.root, unfinished, paths.config_file, directory / _LOG, installation, instances.account)
    found = recovery.recover_data(place, capture_of_base(base), timeout_seconds)
    if isinstance(found, str):
        return found
    control, facts = found
    unfinished.rename(directory / _TREE)
    flush_tree(directory)
    note = _Prepared(control.checkpoint_lsn, control.timeline, control.system_identifier, facts["last_commit_time"])
    files.write(directory / _NOTE, json.dumps(asdict(note)))
    return None


def drop(driver: Driver, paths: ServicePaths, snapshot_id: str) -> None:
    """Remove the prepared copy of a snapshot, even an incomplete one. May run twice."""
    directory = snapshots.directory_of(paths, snapshot_id)
    if not directory.is_dir():
        return
    with _locked(directory):
        secured_copy.drop(driver, paths, directory)
        (directory / _NOTE).unlink(missing_ok=True)
        _remove_incomplete(driver, directory)
        _spares_in(directory).drop(driver)


def _remove_incomplete(driver: Driver, directory: Path, besides: Path | None = None) -> None:
    """Remove the prepared copy, which has no record, and all unfinished ones except that `besides`."""
    for path in (directory / _TREE, *directory.glob("prepared*.unfinished*")):
        if path != besides:
            driver.remove_tree(path)


def _locked(directory: Path) -> AbstractContextManager[None]:
    """Prevent others from changing the prepared copies of a snapshot; forks use them without taking this lock."""
    return files.locked(directory, flags=os.O_DIRECTORY)


def capture(
    driver: Driver, paths: ServicePaths, snapshot_id: str, data: Path, child: Server, neutralize: bool | None
) -> Capture | None:
    """Fill the new tree `data` from the prepared copy of a snapshot, secured in advance if the child is one that fits.

    With `neutralize` None it will not be secured as a fork. None when there is no prepared copy.
    """
    directory = snapshots.directory_of(paths, snapshot_id)
    secured_copy.note(data.parent, None)  # an earlier attempt may have left the record of what was removed since
    prepared, secured = _noted(directory), secured_copy.fitting(directory, child, neutralize)
    if prepared is None:
        return None
    spares = _spares_in(directory) if secured is None else secured_copy.spares_in(directory)
    try:
        spares.take(driver, data)
    except FileNotFoundError:
        return None
    if _noted(directory) != prepared or (secured is not None and secured_copy.noted(directory) != secured):
        driver.remove_tree(data)
        return None
    _check_checkpoint(data, prepared if secured is None else secured)
    if secured is not None:
        secured_copy.note(data.parent, secured_copy.give_verifier(secured, data, child.verifier))
    facts = facts_of(snapshots.base_of(paths, snapshot_id))
    return Capture(None, {**facts, "clean": True, PREPARED: True, "last_commit_time": prepared.last_commit_time})


def _check_checkpoint(data: Path, found: _Prepared | Secured) -> None:
    segment = segment_at(found.timeline, found.checkpoint_lsn)
    check_segment(
        data / WAL_DIRECTORY / segment.name, segment, found.system_identifier, lsn_number(found.checkpoint_lsn)
    )


def _spares_in(directory: Path) -> Spares:
    return Spares(directory / _TREE, _SPARE)


def _noted(directory: Path) -> _Prepared | None:
    try:
        return _Prepared(**json.loads(files.read_existing(directory / _NOTE)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
