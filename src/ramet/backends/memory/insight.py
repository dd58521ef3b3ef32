"""What servers in memory do: one session of a client each, and the statement that commits rows."""

from collections.abc import Sequence

from ramet.backends.interface.insight import Session, TopStatement
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart
from ramet.endpoints import ADMIN, DATABASE

_INSERT = "INSERT INTO rows VALUES ($1)"


class MemoryInsight(MemoryPart):
    """Counts rows; obeys ramet.backends.interface.insight.Insight."""

    def statements(self, server: Server, limit: int) -> Sequence[TopStatement]:
        """Return the statement that made the rows of a volume."""
        rows = len(self._memory.running(server.service_id).rows)
        found = [TopStatement(_INSERT, DATABASE, ADMIN, rows, float(rows), 1.0, rows, rows, 0)] if rows else []
        return found[:limit]

    def activity(self, server: Server, limit: int) -> Sequence[Session]:
        """Return a session that is idle."""
        self._memory.running(server.service_id)
        return [
            Session(1, "client backend", DATABASE, ADMIN, "", None, "idle", None, (), None, 1.0, _INSERT),
        ][:limit]
