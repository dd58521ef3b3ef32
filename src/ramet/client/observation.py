"""Looking on: logs, series and operations."""

from collections.abc import Sequence
from datetime import datetime

from ramet.api.schemas.logs import ServiceLogs
from ramet.api.schemas.metrics import MetricSeries
from ramet.api.schemas.operations import Operations
from ramet.client.connection import Connection, query_of


class Observation(Connection):
    """What services and read replica sets do, by their ids."""

    def read_logs(self, service_id: str, **query: str | Sequence[str]) -> ServiceLogs:
        """Return a page of a service's log, newest first; `query` holds since, until, search, severities, cursor."""
        return self.call("GET", self.path(service_id, "logs") + query_of(query), ServiceLogs)

    def list_series(self, service_id: str) -> list[str]:
        """Return the names of the series that are measured of a service."""
        return self.call("GET", self.path(service_id, "metrics", "available-series"), list[str])

    def read_series(
        self, service_id: str, name: str, begin: datetime, end: datetime, **more: object
    ) -> list[MetricSeries]:
        """Return a series for each combination of labels; `more` holds bucket_seconds, fn and filters."""
        body = {"name": name, "from": begin.isoformat(), "to": end.isoformat(), **more}
        return self.call("POST", self.path(service_id, "metrics", "series"), list[MetricSeries], body)

    def list_operations(self, service_id: str | None = None, **query: str) -> Operations:
        """Return what was done to a service, or to all of the project, newest first.

        `query` holds limit, cursor and all; without all=true what nobody asked for is among them only when it failed.
        """
        path = self.project_path("operations") if service_id is None else self.path(service_id, "operations")
        return self.call("GET", path + query_of(query), Operations)
