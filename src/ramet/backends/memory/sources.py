"""Imports of the backend in memory: the rows of a source that a test has set."""

from dataclasses import dataclass, field, replace

from ramet.backends.interface.sources import Destination, Locale, SourceAddress, SourceFacts
from ramet.backends.interface.values import Progress, Server
from ramet.backends.memory.volumes import ROW_BYTES, Memory, Row
from ramet.errors import Failed, Invalid
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType

_PLAIN = SourceFacts("18.1", 18, Locale("UTF8", "libc", "C", "C"), ROW_BYTES, 1, 0, "postgres", 0)


@dataclass
class MemorySources:
    """One source, with one password; obeys ramet.backends.interface.sources.Sources. `fault` ends its copy."""

    memory: Memory
    password: Secret = field(default_factory=lambda: Secret("source"))
    facts: SourceFacts = _PLAIN
    destination: Destination = field(default_factory=lambda: Destination(18, 18, 2**40))
    rows: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)
    fault: Failed | None = None

    def examine(
        self, source: SourceAddress, password: Secret, service_type: ServiceType, pg_major: int | None = None
    ) -> tuple[SourceFacts, Destination]:
        if password != self.password:
            raise Invalid("SOURCE_UNREADABLE", f"The source {source} could not be examined", "wrong password")
        if pg_major is None:
            return self.facts, self.destination
        return self.facts, replace(self.destination, pg_major=pg_major if pg_major >= self.facts.major else None)

    def seal(self, password: Secret) -> str:
        """Return the password backwards."""
        return password.reveal()[::-1]

    def keep(self, server: Server, source: SourceAddress, sealed: str) -> None:
        self.kept[server.service_id] = sealed[::-1]

    def fetch(
        self,
        server: Server,
        source: SourceAddress,
        facts: SourceFacts,
        timeout_seconds: float,
        *,
        schema_only: bool = False,
    ) -> Progress:
        if self.kept.get(server.service_id, self.password.reveal()) != self.password.reveal():
            raise AssertionError("BUG: another password was kept than the one that was sent")
        if self.fault is not None:
            raise self.fault
        if server.service_id in self.fetched:
            return Progress({"received_bytes": len(self.rows) * ROW_BYTES, "seconds": 0.0})
        self.fetched.add(server.service_id)
        return Progress(None, "begun")

    def load(self, server: Server, facts: SourceFacts, *, owners: bool, timeout_seconds: float) -> Progress:
        if server.service_id not in self.fetched:
            raise AssertionError("BUG: loaded what was not fetched")
        with self.memory.lock:
            volume, now = self.memory.running(server.service_id), self.memory.clock()
            if volume.is_open:
                raise AssertionError("BUG: loaded while clients are let in")
            volume.rows[:] = [Row(now, value) for value in self.rows]
        return Progress({"tables": facts.table_count, "problems": [], "seconds": 0.0})

    def discard(self, service_id: str) -> None:
        self.kept.pop(service_id, None)
        self.fetched.discard(service_id)
