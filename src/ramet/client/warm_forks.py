"""The pool of warm forks that a service keeps."""

from __future__ import annotations

from ramet.api import schemas
from ramet.client.connection import Connection, given


class WarmForkPools(Connection):
    """The operations on pools of warm forks."""

    def get_warm_forks(self, service_id: str) -> schemas.warm_forks.WarmForks:
        """Return how many forks a service keeps ready, and how many there are."""
        return self.call("GET", self.path(service_id, "warmForks"), schemas.warm_forks.WarmForks)

    def set_warm_forks(
        self, service_id: str, size: int, *, max_age_seconds: int | None = None
    ) -> schemas.warm_forks.WarmForks:
        """Let a service keep so many forks ready, none of an older state than that."""
        body = {"size": size, **given(max_age_seconds=max_age_seconds)}
        return self.call("PUT", self.path(service_id, "warmForks"), schemas.warm_forks.WarmForks, body)

    def delete_warm_forks(self, service_id: str) -> None:
        """Let a service keep forks ready only while it is forked often. With the size 0 it never does."""
        self.send("DELETE", self.path(service_id, "warmForks"))
