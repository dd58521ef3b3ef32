"""What the servers of services do."""

from __future__ import annotations

from ramet.api import schemas
from ramet.client.connection import Connection, query_of
from ramet.endpoints import DATABASE


class Insight(Connection):
    """Statements, sessions and tables of services."""

    def get_top_statements(self, service_id: str, limit: int = 50) -> schemas.insight.TopStatements:
        """Return the statements that took most time, as pg_stat_statements counts them."""
        return self.call(
            "GET", f"{self.path(service_id, 'topStatements')}?limit={limit}", schemas.insight.TopStatements
        )

    def get_activity(self, service_id: str, limit: int = 50) -> schemas.insight.Activity:
        """Return the sessions, those that wait for locks and those that they wait for first."""
        return self.call("GET", f"{self.path(service_id, 'activity')}?limit={limit}", schemas.insight.Activity)

    def get_tables(self, service_id: str, database: str = DATABASE, limit: int = 50) -> schemas.insight.Tables:
        """Return the largest tables of a database, and its indexes that are not used."""
        path = self.path(service_id, "tables") + query_of({"database": database, "limit": str(limit)})
        return self.call("GET", path, schemas.insight.Tables)
