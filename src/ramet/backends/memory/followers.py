"""Standbys of the backend in memory: they have the rows of a source that a test has set."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Progress, Server
from ramet.backends.memory.volumes import ROW_BYTES, Memory, Row, Volume
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.passwords import Secret
from ramet.model.upstream import Following, own_slot

_SETTINGS = {"wal_level": "replica", "wal_segment_size": str(16 * 1024**2), "max_wal_senders": "10"}
_PLAIN = UpstreamFacts("18.1", 18, "x86_64", "7000000000000000000", "postgres", ROW_BYTES, _SETTINGS)


@dataclass
class MemoryFollowers:
    """One source, with one password; obeys ramet.backends.interface.followers.Followers.

    `problem` is why it cannot be reached now; `is_down` says that it was shut down. With `needs_copy` a standby can
    follow only with another copy, for example because it `has_diverged`; `failure` is why there can be none, and
    `timeline` that of the source.
    """

    memory: Memory
    password: Secret = field(default_factory=lambda: Secret("source"))
    facts: UpstreamFacts = _PLAIN
    host: HostFacts = field(default_factory=lambda: HostFacts((18,), "x86_64", 2**40))
    rows: list[str] = field(default_factory=list)
    problem: str | None = None
    complete_until: datetime | None = None
    is_down: bool = False
    kept: dict[str, str] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)
    needs_copy: bool = False
    has_diverged: bool = False
    failure: str | None = None
    timeline: int = 1
    slots: set[str] = field(default_factory=set)
    archives: tuple[str, ...] = ()

    def examine(
        self, source: SourceAddress, password: Secret, archive: str | None = None
    ) -> tuple[UpstreamFacts, HostFacts]:
        if password != self.password:
            raise Invalid("SOURCE_UNREADABLE", f"The source {source} could not be examined", "wrong password")
        problem = None if archive in (None, *self.archives) else f"there is no archive {archive!r}"
        return self.facts, replace(self.host, archive_problem=problem)

    def keep(self, server: Server, sealed: str) -> None:
        self.kept[server.service_id] = sealed[::-1]
        if server.upstream is not None and server.upstream.makes_slot:
            self.slots.add(own_slot(server.service_id))

    def fetch(self, server: Server, size_bytes: int, timeout_seconds: float) -> Progress:
        with self.memory.lock:
            if server.service_id not in self.fetched:
                self.fetched.add(server.service_id)
                return Progress(None, "begun")
            if self.kept.get(server.service_id, self.password.reveal()) != self.password.reveal():
                raise AssertionError("BUG: another password was kept than the one that was sent")
            self.memory.volumes.setdefault(server.service_id, Volume(secured=True))
            self._receive(server)
            return Progress({"received_bytes": len(self.rows) * ROW_BYTES})

    def copy_again(self, server: Server, timeout_seconds: float) -> Progress:
        with self.memory.lock:
            if self.failure is not None:
                raise Failed("COPY_FAILED", self.failure)
            if server.service_id not in self.copied:
                self.copied.add(server.service_id)
                return Progress(None, "begun")
            return Progress({"timeline": self.timeline, "redo_lsn": "F/0"})

    def replace(self, server: Server, *, keeps_wal: bool) -> None:
        with self.memory.lock:
            if server.service_id in self.copied:
                self.copied.discard(server.service_id)
                self.needs_copy, self.problem = False, None
                self.memory.volume(server.service_id).rows.clear()
                self._receive(server)

    def discard_copy(self, service_id: str) -> None:
        self.copied.discard(service_id)

    def observe(self, server: Server) -> Following | None:
        with self.memory.lock:
            volume = self.memory.volumes.get(server.service_id)
            if volume is None or not volume.running:
                return None
            if self.problem is None:
                self._receive(server)
            lag = None if self.problem else (len(self.rows) - len(volume.rows)) * ROW_BYTES
            return Following(
                observed_at=self.memory.clock(),
                lag_bytes=lag,
                lag_seconds=0.0,
                complete_until=self.complete_until,
                replayed_lsn=f"0/{len(volume.rows) + 1:X}",  # behind the last record
                problem=self.problem,
                needs_copy=self.needs_copy,
                has_diverged=self.has_diverged,
            )

    def await_end(self, server: Server, lsn: str | None, *, drain: bool, takes_place: bool = False) -> str | None:
        with self.memory.lock:
            self._running(server)
            if self.problem is None:
                self._receive(server)
            return "the source is running" if drain and not self.is_down else None

    def promote(self, server: Server, timeout_seconds: float, *, neutralize: bool = False) -> str | None:
        self._running(server).follows = False
        return None

    def take_over(self, server: Server, *, neutralize: bool, takes_place: bool = False) -> dict[str, Any]:
        self._running(server).secured = True
        return {} if takes_place else {"neutralize": neutralize}

    def start_workers(self, server: Server) -> None:
        self._running(server)

    def discard(self, service_id: str) -> str | None:
        self.fetched.discard(service_id)
        slot = own_slot(service_id)
        if slot in self.slots and self.problem is not None and service_id in self.kept:
            return f"The slot {slot} stays in the source. {self.problem}"
        self.slots.discard(slot)
        self.forget(service_id)
        return None

    def forget(self, service_id: str) -> None:
        self.kept.pop(service_id, None)

    def _running(self, server: Server) -> Volume:
        volume = self.memory.volumes.get(server.service_id)
        if volume is None or not volume.running:
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {server.service_id} is not running")
        return volume

    def _receive(self, server: Server) -> None:
        volume, clock = self.memory.volumes[server.service_id], self.memory.clock
        if volume.follows:
            volume.rows += [Row(clock(), value) for value in self.rows[len(volume.rows) :]]
