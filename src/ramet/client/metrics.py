"""Metrics of services."""

from datetime import datetime

from ramet.api.schemas.metrics import MetricSeries
from ramet.client.connection import Connection


class Metrics(Connection):
    """The operations on metrics, of services and of read replica sets by their ids."""

    def list_series(self, service_id: str) -> list[str]:
        """Return the names of a service's series."""
        return self.call("GET", self.path(service_id, "metrics", "available-series"), list[str])

    def read_series(
        self, service_id: str, name: str, begin: datetime, end: datetime, **more: object
    ) -> list[MetricSeries]:
        """Return a series for each combination of labels; `more` may contain bucket_seconds, fn and filters."""
        body = {"name": name, "from": begin.isoformat(), "to": end.isoformat(), **more}
        return self.call("POST", self.path(service_id, "metrics", "series"), list[MetricSeries], body)
