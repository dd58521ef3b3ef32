"""Snapshots and forks in memory: rows are copied."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ramet.backends.interface.values import Capture, Progress, Server, SnapshotFacts, Source
from ramet.backends.memory.volumes import ROW_BYTES, MemoryPart, Row, Volume
from ramet.errors import Failed
from ramet.model.gaps import Gap
from ramet.model.snapshot import Snapshot
from ramet.model.timestamps import rfc3339


class MemoryRestore(MemoryPart):
    """Copies of rows; obeys ramet.backends.interface.restore.Restore."""

    def check_fork(self, source: Source, as_of: datetime | None, count: int = 1) -> None:
        """Allow every fork."""

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the rows that the source names."""
        with self._memory.lock:
            if source.base_backup_id is not None:
                return self._capture_fetched(child, source)
            parent = self._memory.volumes[source.parent.service_id]
            if not parent.running and not source.paused:
                return None
            if child.service_id not in self._memory.volumes:
                self._memory.volumes[child.service_id] = Volume(rows=_rows_of(parent, source), damage=parent.damage)
            rows = self._memory.volumes[child.service_id].rows
            facts = {"rows": len(rows), "timeline": parent.timeline, "end_lsn": _lsn(len(rows) + parent.backups)}
            return Capture(source.target, facts, needs_parent=self._memory.recoveries_need_parent)

    def _capture_fetched(self, child: Server, source: Source) -> Capture:
        """Take the rows that were fetched from the archive."""
        volumes, fetched = self._memory.volumes, self._memory.fetched.pop(child.service_id, None)
        if child.service_id not in volumes:
            if fetched is None:
                raise Failed("DOWNLOAD_LOST", "What was downloaded for this fork is gone", "Fork once more.")
            volumes[child.service_id] = Volume(
                rows=_rows_of(Volume(rows=list(fetched)), replace(source, snapshot_id=None)),
                secured=child.service_id == source.parent.service_id,
            )
        rows = volumes[child.service_id].rows
        facts: dict[str, Any] = {"rows": len(rows), "timeline": 1, "end_lsn": _lsn(len(rows))}
        if rows:
            facts["base_time"] = rfc3339(rows[-1].committed_at)
        if source.target is not None and fetched is not None:
            facts["cut"] = {"last_included": _mark(rows[-1:]), "first_excluded": _mark(fetched[len(rows) :])}
        return Capture(source.target, facts | {"archive": _downloaded(source, rows)})

    def recover(self, child: Server, capture: Capture, timeout_seconds: float) -> Progress:
        """Prove that no row is from after the target."""
        rows = self._memory.volume(child.service_id).rows
        if capture.recover_to is not None and any(row.committed_at > capture.recover_to for row in rows):
            raise Failed("WRONG_STOP_POINT", "Recovery went beyond the target")
        return Progress({"rows": len(rows)})

    def report_on_fork(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Find nothing that did not come along."""
        return {"unlogged_tables": []}

    def analyze(self, server: Server, timeout_seconds: float) -> str | None:
        """Have no statistics."""
        self._memory.running(server.service_id)
        return "collected"

    def verify_data(self, server: Server, timeout_seconds: float) -> str | None:
        """Complain of what a test has damaged."""
        return self._memory.running(server.service_id).damage

    def verify_archive(self, service_id: str, after: str) -> str | None:
        """Have no archive to walk over."""
        return None

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Keep the rows as they are now."""
        with self._memory.lock:
            volume = self._memory.volume(server.service_id)
            if not volume.running and not paused:
                return None
            rows = volume.snapshots.setdefault(snapshot_id, tuple(volume.rows))
            volume.backups += 1  # each writes its own WAL
            lsn = _lsn(len(rows) + volume.backups)
            return SnapshotFacts(self._memory.clock(), lsn, lsn, volume.timeline, len(rows), len(rows) * ROW_BYTES)

    def prepare_snapshot(self, server: Server, snapshot_id: str, timeout_seconds: float, spares: int) -> str | None:
        """Find every snapshot quick to fork."""

    def discard_preparation(self, service_id: str, snapshot_id: str) -> None:
        """Remove nothing."""

    def delete_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Forget a snapshot."""
        with self._memory.lock:
            if service_id in self._memory.volumes:
                self._memory.volumes[service_id].snapshots.pop(snapshot_id, None)

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots that the volume holds."""
        with self._memory.lock:
            return frozenset(self._memory.volumes[service_id].snapshots) if service_id in self._memory.volumes else None

    def discard_wal(self, service_id: str, oldest: Snapshot | SnapshotFacts) -> int:
        """Discard nothing: rows are their own archive."""
        return 0

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the gaps that a test has made."""
        return self._memory.volume(service_id).gaps

    def written_since(self, server: Server, snapshot: Snapshot | SnapshotFacts) -> int | None:
        """Return the size of the rows committed since a snapshot."""
        volume = self._memory.volume(server.service_id)
        return (len(volume.rows) - snapshot.next_xid) * ROW_BYTES if volume.running else None


def _mark(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return the end of the first of some transactions, as a report has it; None of none."""
    return {"xid": 1, "lsn": _lsn(1), "time": rfc3339(rows[0].committed_at)} if rows else None


def _downloaded(source: Source, rows: Sequence[Row]) -> dict[str, Any]:
    size_bytes = len(rows) * ROW_BYTES
    return {"url": "memory://", "base_backup": source.base_backup_id, "downloaded_bytes": size_bytes, "seconds": 0.0}


def _rows_of(parent: Volume, source: Source) -> list[Row]:
    if source.target is not None:
        held = next((rows for until, rows in parent.past if source.target < until), parent.rows)
        return [row for row in held if row.committed_at <= source.target]
    if source.snapshot_id is not None:
        return list(parent.snapshots[source.snapshot_id])
    return list(parent.rows)


def _lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
