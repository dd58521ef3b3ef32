"""Putting into a fork's volume all that it will ever need of its parent, complete and verified.

The data directory appears under its name as the last act, beside a note of what was captured: a capture that runs
again after a crash either finds it there or begins anew. It is not flushed here, nor while it is recovered: that is
done once, when its server is first started. So a capture counts only until the host is started anew.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ramet.backends.interface.values import Capture, Server, Source
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import snapshots, warm_copy
from ramet.backends.local.restore.base_backup import captured, copy_running, copy_stopped
from ramet.backends.local.restore.point_in_time import RollForward
from ramet.backends.local.server.servers import Servers
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.rows import row
from ramet.backends.local.volumes.driver import Driver
from ramet.errors import Failed, Unavailable
from ramet.machine.processes import boot_id

_UNFINISHED = "data.unfinished"
_NOTE = "capture.json"
_THE_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Capturing:
    """How the forks of a data root get their data."""

    servers: Servers
    driver: Driver

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Make the child's data directory from `source`, or find the one that an earlier call made.

        None means that the parent's server is not serving at this moment. Raises Failed when a part of what is
        needed is missing or damaged, naming it and the nearest moments that can be had.
        """
        paths = self.servers.make_directories(child)
        if paths.data.exists() and not _is_of_this_boot(paths):
            self.driver.remove_tree(paths.data)
        if not paths.data.exists():
            unfinished = unfinished_of(paths)
            self.driver.remove_tree(unfinished)
            try:
                with ThreadPoolExecutor(1, "prepare") as meanwhile:
                    prepared = meanwhile.submit(self.servers.prepare, child)
                    made = self._build(source, unfinished)
                prepared.result()
            except Unavailable:
                return None
            self._keep(made, unfinished, paths)
        return capture_of(paths)

    def _keep(self, made: Capture, unfinished: Path, paths: ServicePaths) -> None:
        note = {**msgspec.to_builtins(made), "boot_id": boot_id()}
        files.write(paths.root / _NOTE, json.dumps(note))
        unfinished.rename(paths.data)

    def _build(self, source: Source, data: Path) -> Capture:
        parent = self.servers.paths(source.parent.service_id)
        installation = self.servers.installations.of(source.parent.pg_major)
        down = not source.paused and postgres.running(parent) is None
        if source.snapshot_id is None:
            if source.paused:
                return captured(copy_stopped(self.driver, installation, parent, data))
            if not down:
                return self._copy_serving(parent, data)
            newest = snapshots.newest(parent)
            return RollForward(self.driver, installation, parent, newest, _THE_END, paused=False, down=True).into(data)
        if source.target is None:
            return self._copy_snapshot(parent, source.snapshot_id, data)
        rolling = RollForward(self.driver, installation, parent, source.snapshot_id, source.target, source.paused, down)
        return rolling.into(data)

    def _copy_serving(self, parent: ServicePaths, data: Path) -> Capture:
        """Copy a running server, or its newest snapshot when no transaction has written anything since."""
        unchanged = _unchanged_since(parent)
        if unchanged is None:
            return captured(copy_running(self.driver, parent, data))
        return self._copy_snapshot(parent, unchanged, data)

    def _copy_snapshot(self, parent: ServicePaths, snapshot_id: str, data: Path) -> Capture:
        prepared = warm_copy.capture(self.driver, parent, snapshot_id, data)
        if prepared is not None:
            return prepared
        base = snapshots.base_of(parent, snapshot_id)
        tree = snapshots.data_of(parent, snapshot_id)
        self.driver.clone_tree(tree, data)
        base.check_copy(data)
        return captured(base)


def _unchanged_since(parent: ServicePaths) -> str | None:
    """Return the newest snapshot of a running server when it holds all that was ever committed, else None.

    A snapshot counts from the oldest transaction that ran when it was taken. Whatever commits has a number of its own,
    and moves the end of those that are over. Only a prepared transaction is kept without being over.
    """
    if not snapshots.names(parent):
        return None
    newest = snapshots.newest(parent)
    with connections.connect(parent) as connection:
        next_xid, is_prepared = row(
            connection,
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, EXISTS (SELECT FROM pg_prepared_xacts)",
        )
    unchanged = not is_prepared and snapshots.base_of(parent, newest).facts.next_xid == next_xid
    return newest if unchanged else None


def unfinished_of(paths: ServicePaths) -> Path:
    """Return where a data directory is built before it gets its name."""
    return paths.root / _UNFINISHED


def check_boot(paths: ServicePaths) -> None:
    """Raise Failed when the host was started anew since the capture: parts of it may never have reached the disk."""
    if not _is_of_this_boot(paths):
        raise Failed(
            "INTERRUPTED_BY_REBOOT",
            f"The host was restarted while service {paths.service_id} was being forked",
            "Fork once more.",
        )


def _is_of_this_boot(paths: ServicePaths) -> bool:
    try:
        return bool(json.loads((paths.root / _NOTE).read_bytes())["boot_id"] == boot_id())
    except (*GONE, ValueError, KeyError, TypeError):
        return False


def capture_of(paths: ServicePaths) -> Capture:
    """Return what was captured into a service's volume. Raises Failed when there is no note of it."""
    try:
        return msgspec.json.decode((paths.root / _NOTE).read_bytes(), type=Capture)
    except FileNotFoundError as error:
        raise Failed(
            "VOLUME_LOST", f"What was captured for service {paths.service_id} is gone", "Fork once more."
        ) from error
