"""Logs of services."""

from collections.abc import Sequence

from ramet.api.schemas.logs import ServiceLogs
from ramet.client.connection import Connection, query_of


class Logs(Connection):
    """The operations on logs, of services and of read replica sets by their ids."""

    def read_logs(self, service_id: str, **query: str | Sequence[str]) -> ServiceLogs:
        """Return a page of a log, newest first; `query` may contain since, until, search, severities and cursor."""
        return self.call("GET", self.path(service_id, "logs") + query_of(query), ServiceLogs)
