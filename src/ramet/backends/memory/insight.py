"""What servers in memory do: one session of a client each, and the statement that commits rows."""

from collections.abc import Sequence

from ramet.backends.interface.insight import Session, Table, Tables, TopStatement, UnusedIndex
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import ROW_BYTES, MemoryPart
from ramet.endpoints import ADMIN, DATABASE
from ramet.errors import NotFound

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

    def tables(self, server: Server, database: str, limit: int) -> Tables:
        """Return the table of all rows, with an index that nothing uses."""
        rows = len(self._memory.running(server.service_id).rows)
        if database != DATABASE:
            raise NotFound("DATABASE_NOT_FOUND", f"service {server.service_id} has no database {database[:64]!r}")
        size = rows * ROW_BYTES
        table = Table("public", "rows", size, size, 0, 0, rows, 0, None, None)
        index = UnusedIndex("public", "rows", "rows_value", 0)
        return Tables(database, [table][:limit], [index][:limit], None, is_complete=True)
