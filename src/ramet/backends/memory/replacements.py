"""Replacing rows in memory. A service keeps the rows of before for its restore window."""

from collections.abc import Sequence
from typing import Any

from ramet.backends.interface.values import Capture, Server
from ramet.backends.memory.volumes import Memory, Volume
from ramet.errors import Invalid, Unavailable

_DATA = ("rows", "secured", "damage", "has_database", "memory_gbs", "pg_major", "timeline", "verifier", "logins")


class MemoryReplacements:
    """Copies of rows that take a service over; obeys ramet.backends.interface.replacements.Replacements."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.impossible: str | None = None
        self.subscribes = False

    def check(self) -> None:
        """Refuse where a test says so."""
        if self.impossible is not None:
            raise Invalid("RESTORE_NOT_AVAILABLE", self.impossible)

    def reserve_timeline(self, copy: Server, service_id: str, captured: Capture) -> Capture:
        """Have no recovery that could begin a timeline."""
        self._memory.volume(copy.service_id)
        return captured

    def leave_timeline(self, copy: Server, service_id: str, timeout_seconds: float) -> str | None:
        """Take the next timeline."""
        with self._memory.lock:
            self._memory.volume(copy.service_id).timeline = self._memory.volumes[service_id].last_timeline + 1
        return None

    def starts_quietly(self, copy: Server) -> bool:
        """Tell what a test says."""
        return not self.subscribes

    def secure(self, copy: Server, *, rotate: bool, neutralize: bool) -> dict[str, Any]:
        """Note that it has credentials."""
        self._memory.running(copy.service_id).secured = True
        return {"jobs": self._memory.jobs} if neutralize else {}

    def close(self, copy: Server) -> None:
        """Stop the copy."""
        volume = self._memory.volumes.get(copy.service_id)
        if volume is not None:
            volume.running = volume.is_open = False

    def flush(self, server: Server) -> None:
        """Have nothing in memory only."""

    def release(self, server: Server, copy: Server) -> None:
        """Stop the server, whose pooler stays; note its password."""
        with self._memory.lock:
            volume = self._memory.volume(server.service_id)
            self._memory.volume(copy.service_id).noted = volume.verifier or server.verifier
            volume.running = volume.is_open = False

    def move_data(self, source: Server, target: Server, snapshot_ids: Sequence[str] = ()) -> None:
        """Move the rows, and what belongs to them."""
        with self._memory.lock:
            volumes = self._memory.volumes
            giver = volumes.get(source.service_id)
            if giver is None or not giver.has_data:
                return
            taker = volumes.setdefault(target.service_id, Volume(has_data=False))
            if taker.has_data:
                return
            if giver.running:
                raise AssertionError("BUG: its data is moved while it runs")
            _move(giver, taker, snapshot_ids)
            giver.past.append((self._memory.clock(), tuple(taker.rows)))
            if taker.past and taker.past[-1][1] == tuple(taker.rows):
                taker.past.pop()  # it gets back what it had

    def adopt(self, server: Server, copy: Server) -> None:
        """Set the noted password."""
        volume, noted = self._memory.running(server.service_id), self._memory.volumes.get(copy.service_id)
        if volume.is_open:
            raise Unavailable("SERVER_OPEN", "Its passwords are set while clients are let in")
        if noted is not None and noted.noted is not None:
            volume.verifier = noted.noted

    def end_timeline(self, server: Server, previous: Server) -> None:
        """Have no WAL."""

    def withdraw_timeline(self, server: Server, previous: Server) -> None:
        """Forget the timeline of what it gives back."""
        with self._memory.lock:
            volumes = self._memory.volumes
            if server.service_id in volumes and previous.service_id in volumes:
                volumes[server.service_id].last_timeline = volumes[previous.service_id].timeline

    def open(self, server: Server) -> None:
        """Let clients in."""
        volume = self._memory.running(server.service_id)
        if not volume.secured:
            raise AssertionError("BUG: opened before it had its own credentials")
        volume.is_open, volume.pooler_port = True, server.pooler_port


def _move(giver: Volume, taker: Volume, snapshot_ids: Sequence[str]) -> None:
    fresh = Volume()
    for name in _DATA:
        setattr(taker, name, getattr(giver, name))
        setattr(giver, name, getattr(fresh, name))
    taker.last_timeline = max(taker.last_timeline, taker.timeline)
    giver.has_data, taker.has_data = False, True
    for snapshot_id in snapshot_ids:
        if snapshot_id in giver.snapshots:
            taker.snapshots[snapshot_id] = giver.snapshots.pop(snapshot_id)
