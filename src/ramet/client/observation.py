"""What can be seen of services: logs, metrics, and the operations that they have gone through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ramet.api import schemas
from ramet.client.connection import Connection, query_of


class Observation(Connection):
    """Logs, metrics and operations, of services and of read replica sets by their ids."""

    def read_logs(self, service_id: str, **query: str | Sequence[str]) -> schemas.logs.ServiceLogs:
        """Return a page of a log, newest first; `query` may contain since, until, search, severities and cursor."""
        return self.call("GET", self.path(service_id, "logs") + query_of(query), schemas.logs.ServiceLogs)

    def list_series(self, service_id: str) -> list[str]:
        """Return the names of a service's series."""
        return self.call("GET", self.path(service_id, "metrics", "available-series"), list[str])

    def read_series(
        self, service_id: str, name: str, begin: datetime, end: datetime, **more: object
    ) -> list[schemas.metrics.MetricSeries]:
        """Return a series for each combination of labels; `more` may contain bucket_seconds, fn and filters."""
        body = {"name": name, "from": begin.isoformat(), "to": end.isoformat(), **more}
        return self.call("POST", self.path(service_id, "metrics", "series"), list[schemas.metrics.MetricSeries], body)

    def list_operations(self, service_id: str | None = None, **query: str) -> schemas.operations.Operations:
        """Return the operations on a service, or on all services of the project, newest first.

        `query` may contain limit, cursor and all. Without all=true, work that Ramet started by itself is listed only
        when it failed.
        """
        path = self.project_path("operations") if service_id is None else self.path(service_id, "operations")
        return self.call("GET", path + query_of(query), schemas.operations.Operations)
