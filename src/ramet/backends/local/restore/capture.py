"""Copy all that a fork needs of its parent into the fork's volume, and verify it.

The data directory gets its name as the last step, next to a record of what was captured: a capture that runs again
after a crash finds it complete or starts over. It is flushed only once, when its server is first started, so until then
a capture is valid only as long as the host is not rebooted.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ramet.archive.layout import ARCHIVE_INCOMPLETE
from ramet.backends.interface.restore import INTERRUPTED_BY_REBOOT
from ramet.backends.interface.values import Capture, Server, Source
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import fetched, prepared_copy, snapshots, standby_copy
from ramet.backends.local.restore.base_backup import capture_of_base, copy_running, copy_stopped
from ramet.backends.local.restore.point_in_time import Extent, RollForward, extent_of
from ramet.backends.local.restore.prepared_copy import PREPARED
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, foreign
from ramet.backends.local.sql.connections import row
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.volumes.syscalls import NotFlushed
from ramet.backends.local.wal.locate import copy_history
from ramet.errors import Failed, Unavailable, Unseen
from ramet.machine.processes import boot_id
from ramet.model.timestamps import rfc3339

# In a capture's facts: what was downloaded from the off-host archive.
FETCHED = "archive"
_NOTE = "capture.json"
_FLUSHED = "capture.flushed"
_THE_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Capturing:
    """Captures the data of the forks of a data root."""

    instances: Instances
    driver: Driver

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Create the child's data directory from `source`, or find the one that an earlier call created.

        None means that the parent's server does not accept connections at present. Raises Failed when a required file
        is missing or damaged, naming it and the nearest restorable times.
        """
        paths = self.instances.make_directories(child)
        if paths.data.exists() and not _is_of_this_boot(paths):
            _forget(paths)
            self.driver.remove_tree(paths.data)
        if not paths.data.exists():
            self.driver.remove_tree(paths.unfinished)
            try:
                made = self._build(child, source, paths.unfinished)
            except Unseen:
                raise
            except Unavailable:
                return None
            self._inherit(paths, source)
            self._keep(made, paths)
        if source.base_backup_id is not None:
            fetched.discard(self.driver, self.instances.layout, child.service_id)
        return read_capture(paths)

    def _inherit(self, paths: ServicePaths, source: Source) -> None:
        """Record whose superuser the copy of a standby has, also one from before the parent was promoted."""
        parent = self.instances.paths(source.parent.service_id)
        is_of_before = source.snapshot_id is not None and snapshots.base_of(parent, source.snapshot_id).of_standby
        if source.parent.upstream is not None or is_of_before:
            foreign.inherit(paths, parent)

    def _keep(self, made: Capture, paths: ServicePaths) -> None:
        note = {**msgspec.to_builtins(made), "boot_id": boot_id()}
        files.write(paths.root / _NOTE, json.dumps(note))
        paths.unfinished.rename(paths.data)

    def _build(self, child: Server, source: Source, data: Path) -> Capture:
        if source.base_backup_id is not None:
            return self._copy_fetched(child, source, data)
        parent = self.instances.paths(source.parent.service_id)
        down = not source.paused and postgres.running(parent) is None
        if source.parent.upstream is not None:
            return self._copy_standby(source, parent, data, down=down)
        if source.snapshot_id is not None and source.target is None:
            return self._copy_snapshot(child, source, source.snapshot_id, data)
        if source.snapshot_id is None and source.paused:
            return capture_of_base(
                copy_stopped(self.driver, self.instances.installation_of(source.parent), parent, data)
            )
        if source.snapshot_id is None and not down:
            return self._copy_serving(child, source, parent, data)
        return _rolled(self._roll_forward(source, parent, down=down), data)

    def _roll_forward(
        self, source: Source, parent: ServicePaths, *, down: bool, extent: Extent | None = None
    ) -> RollForward:
        """Return the recovery of a base backup, of the newest snapshot if none is named, to the target or the end."""
        return RollForward(
            self.driver,
            self.instances.installation_of(source.parent),
            parent,
            source.base_backup_id or source.snapshot_id or snapshots.newest(parent),
            source.target or _THE_END,
            paused=source.paused and not down,
            down=down,
            extent=extent,
        )

    def _copy_standby(self, source: Source, parent: ServicePaths, data: Path, *, down: bool) -> Capture:
        """Copy a standby of a database elsewhere: as it is now, of a snapshot, or rolled forward from one."""
        if source.snapshot_id is not None and source.target is None:
            base = snapshots.copy_data(self.driver, parent, source.snapshot_id, data)
            base.check_copy(data)
            return standby_copy.finish_standby(base, data)
        if source.snapshot_id is None and not down:
            copy = standby_copy.copy_stopped_standby if source.paused else standby_copy.copy_running_standby
            return standby_copy.finish_standby(
                copy(self.driver, self.instances.installation_of(source.parent), parent, data), data
            )
        return _rolled(replace(self._roll_forward(source, parent, down=down), is_standby=True), data)

    def _copy_fetched(self, child: Server, source: Source, data: Path) -> Capture:
        """Copy what was downloaded from the off-host archive, as of a parent whose server is gone."""
        place = fetched.place_of(self.instances.layout, child.service_id, source.parent.service_id)
        state, base_id, target = place.complete(), source.base_backup_id or "", source.target
        extent = extent_of(place.parent.archive, snapshots.base_of(place.parent, base_id).segments[-1])
        made = self._roll_forward(source, place.parent, down=True, extent=extent).into(data)
        if target is not None and state.is_superseded and standby_copy.TO_THE_END in made.facts:
            raise Failed(
                ARCHIVE_INCOMPLETE,
                f"The archive {state.url} does not say what service {source.parent.service_id} held"
                f" at {rfc3339(target)}: its WAL ends before that, and begins again later",
                "Choose an earlier or a later time.",
            )
        for history in place.parent.archive.glob("*.history"):
            # PostgreSQL chooses the first timeline without one: WAL of another one might have the same names.
            copy_history(history, data)
        return replace(made, facts=made.facts | {FETCHED: fetched.facts_of(state)})

    def _copy_serving(self, child: Server, source: Source, parent: ServicePaths, data: Path) -> Capture:
        """Copy a running server, or its newest snapshot if nothing was written since.

        The fork has no hold on that snapshot: it may be deleted while it is copied.
        """
        unchanged = _unchanged_since(parent)
        if unchanged is not None:
            is_kept = snapshots.directory_of(parent, unchanged).is_dir
            try:
                made = self._copy_snapshot(child, source, unchanged, data)
                if is_kept():
                    return made
            except (Failed, FileNotFoundError):
                if is_kept():
                    raise
            self.driver.remove_tree(data)
        return capture_of_base(copy_running(self.driver, parent, data))

    def _copy_snapshot(self, child: Server, source: Source, snapshot_id: str, data: Path) -> Capture:
        parent = self.instances.paths(source.parent.service_id)
        prepared = prepared_copy.capture(self.driver, parent, snapshot_id, data, child, source.neutralize)
        if prepared is not None:
            return prepared
        base = snapshots.copy_data(self.driver, parent, snapshot_id, data)
        base.check_copy(data)
        return capture_of_base(base)


def _rolled(rolling: RollForward, data: Path) -> Capture:
    """Fill the new tree `data`. Raises Unavailable when a dead server was started during that: its WAL grew."""
    made = rolling.into(data)
    if rolling.down and standby_copy.TO_THE_END in made.facts and postgres.running(rolling.parent) is not None:
        service_id = rolling.parent.service_id
        raise Unavailable(
            "SERVER_STARTING", f"The server of service {service_id} was started while it was being copied"
        )
    return made


def _unchanged_since(parent: ServicePaths) -> str | None:
    """Return the newest snapshot of a running server if it contains all committed transactions, else None.

    The `next_xid` of a snapshot is the oldest transaction that was running when it was taken. Each later commit
    advances the server's next transaction ID. Only a prepared transaction is durable without having ended.
    """
    found = snapshots.in_wal_order(parent)
    if not found:
        return None
    newest, base = found[-1]
    with connections.connect(parent) as connection:
        next_xid, is_prepared = row(
            connection,
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, EXISTS (SELECT FROM pg_prepared_xacts)",
        )
    return newest if not is_prepared and base.facts.next_xid == next_xid else None


def is_captured(paths: ServicePaths) -> bool:
    """Tell whether the capture into a service's volume is complete, and valid until the host is rebooted."""
    return paths.data.exists() and _is_of_this_boot(paths)


def is_prepared(paths: ServicePaths) -> bool:
    """Tell whether what was captured is a copy of a prepared snapshot, whose files are on disk."""
    return PREPARED in read_capture(paths).facts


def move_note(giver: ServicePaths, taker: ServicePaths) -> None:
    """Let the record of a capture follow its data directory, which was moved. May run again."""
    if (giver.root / _NOTE).exists() and taker.data.exists() and not giver.data.exists():
        (giver.root / _NOTE).replace(taker.root / _NOTE)


def flush(paths: ServicePaths, written_back: Path | None = None, changed: Sequence[Path] = ()) -> None:
    """Flush a copy as `flush_tree` does. Raises Failed when a part of it could not be written.

    That step must not be tried again: the next flush would succeed, although the copy on the disk is not complete.
    """
    try:
        flush_tree(paths.root, written_back, changed)
    except NotFlushed as error:
        raise Failed(
            "COPY_NOT_WRITTEN",
            f"The copy of the data in {paths.root} could not be written to the disk: {error.strerror}",
            "Check the disk and its free space, then try again: the data is copied again.",
        ) from error


def note_flushed(paths: ServicePaths) -> None:
    """Record that all of a capture is on disk: it outlives a reboot of the host.

    Without a flush of its own, for which forks would wait: a power cut may take the record, and never leaves it alone.
    """
    files.write(paths.root / _FLUSHED)


def is_flushed(paths: ServicePaths) -> bool:
    """Tell whether what was captured for a server has been flushed."""
    return files.is_there(paths.root / _FLUSHED)


def _forget(paths: ServicePaths) -> None:
    """Remove the record of a capture: after a power cut it must not be there beside other data."""
    for name in (_NOTE, _FLUSHED):
        (paths.root / name).unlink(missing_ok=True)
    files.flush(paths.root)


def check_boot(paths: ServicePaths) -> None:
    """Raise Failed when the host was rebooted since the capture: parts of it may not be on disk."""
    if not _is_of_this_boot(paths):
        raise Failed(
            INTERRUPTED_BY_REBOOT,
            f"The host was restarted while service {paths.service_id} was being forked",
            "Fork once more.",
        )


def _is_of_this_boot(paths: ServicePaths) -> bool:
    try:
        return bool(json.loads(files.read_bytes(paths.root / _NOTE))["boot_id"] == boot_id())
    except (*GONE, ValueError, KeyError, TypeError):
        return False


def read_capture(paths: ServicePaths) -> Capture:
    """Return the record of the capture in a service's volume. Raises Failed when it is missing."""
    try:
        return msgspec.json.decode(files.read_bytes(paths.root / _NOTE), type=Capture)
    except FileNotFoundError as error:
        raise Failed(
            "VOLUME_LOST", f"The captured data of service {paths.service_id} is missing", "Fork once more."
        ) from error
