"""Upgrades of the backend in memory: rows stay as they are, and a test says what is wrong."""

from collections.abc import Sequence

from ramet.backends.interface.values import Progress, Server
from ramet.backends.memory.volumes import Memory
from ramet.errors import Failed
from ramet.model.upgrade import Refusal, Statement, StatementPlan, Survey, UpgradeExtension, UpgradeFacts

_TABLE = "tsdb.public.rows"


class MemoryUpgrades:
    """Versions that only count; obeys ramet.backends.interface.upgrades.Upgrades."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.refusals: list[Refusal] = []
        self.extensions: list[UpgradeExtension] = []
        self.statements: list[Statement] = []
        self.problems: list[str] = []
        self.fault: str | None = None
        self.loses_rows = False

    def majors(self) -> Sequence[int]:
        return [15, 16, 17, 18, 19]

    def examine(self, server: Server, to_major: int) -> UpgradeFacts:
        self._memory.running(server.service_id)
        return UpgradeFacts(
            from_version=f"{server.pg_major}.0",
            to_version=f"{to_major}.0",
            extensions=tuple(self.extensions),
            statements=tuple(self.statements),
            refusals=tuple(self.refusals),
        )

    def survey(self, server: Server, statements: Sequence[Statement], timeout_seconds: float) -> Survey | None:
        """Count the rows."""
        volume = self._memory.running(server.service_id)
        if volume.is_open:
            raise AssertionError("BUG: surveyed while clients are let in")
        plans = tuple(StatementPlan(each.text, ("Seq Scan on rows",), 1.0) for each in statements)
        return Survey({_TABLE: len(volume.rows)}, plans)

    def prepare(self, server: Server) -> None:
        self._memory.running(server.service_id).is_prepared = True

    def upgrade(self, server: Server, from_major: int, timeout_seconds: float) -> Progress:
        with self._memory.lock:
            volume = self._memory.volume(server.service_id)
            if volume.running:
                raise AssertionError("BUG: upgraded while it runs")
            if volume.pg_major == server.pg_major:
                return Progress({"method": "clone", "keeps_statistics": True})
            if not volume.is_prepared:
                raise AssertionError("BUG: upgraded before it was prepared")
            if self.fault is not None:
                raise Failed("UPGRADE_FAILED", "pg_upgrade failed", self.fault)
            volume.pg_major, volume.is_prepared = server.pg_major, False
            if self.loses_rows:
                del volume.rows[-1:]
            return Progress(None, "begun")

    def hand_over(self, from_id: str, to_id: str) -> None:
        """Move the volume; its roles have their passwords."""
        with self._memory.lock:
            if to_id not in self._memory.volumes and from_id in self._memory.volumes:
                volume = self._memory.volumes.pop(from_id)
                volume.running = volume.is_open = False
                volume.secured = True
                self._memory.volumes[to_id] = volume

    def complete(self, server: Server, from_major: int) -> Sequence[str]:
        self._memory.running(server.service_id)
        return self.problems
