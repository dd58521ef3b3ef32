"""What the servers of services do."""

from ramet.api.schemas.insight import Activity, TopStatements
from ramet.client.connection import Connection


class Insight(Connection):
    """Statements and sessions of services."""

    def get_top_statements(self, service_id: str, limit: int = 50) -> TopStatements:
        """Return the statements that took most time, as pg_stat_statements counts them."""
        return self.call("GET", f"{self.path(service_id, 'topStatements')}?limit={limit}", TopStatements)

    def get_activity(self, service_id: str, limit: int = 50) -> Activity:
        """Return the sessions, those that wait for locks and those that they wait for first."""
        return self.call("GET", f"{self.path(service_id, 'activity')}?limit={limit}", Activity)
