"""Logical replication from services."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection
from ramet.model.wal_level import WalLevel


class Replications(Connection):
    """The wal_level of services, and their replication slots."""

    def get_replication(self, service_id: str) -> schemas.replication.Replication:
        """Return the wal_level of a service, and how much WAL its replication slots retain."""
        return self.call("GET", self.path(service_id, "replication"), schemas.replication.Replication)

    def set_wal_level(self, service_id: str, wal_level: WalLevel) -> Service:
        """Set the wal_level, for which the server restarts; wait as after a start."""
        return self.call("POST", self.path(service_id, "setWalLevel"), Service, {"wal_level": wal_level})
