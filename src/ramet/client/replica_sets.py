"""Read replica sets."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.shared import Success
from ramet.client.connection import Connection
from ramet.model.environment import Environment


class ReplicaSets(Connection):
    """The operations on the read replica sets of a service."""

    def list_replica_sets(self, service_id: str) -> list[schemas.replica_sets.ReadReplicaSet]:
        """Return the read replica sets of a service, oldest first."""
        return self.call("GET", self.path(service_id, "replicaSets"), list[schemas.replica_sets.ReadReplicaSet])

    def create_replica_set(
        self, service_id: str, name: str, *, nodes: int = 1, cpu_millis: str | int, memory_gbs: str | int
    ) -> schemas.replica_sets.ReadReplicaSet:
        """Create read-only copies that follow a service. Wait for their id as for a service's."""
        body = {"name": name, "nodes": nodes, "cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        return self.call("POST", self.path(service_id, "replicaSets"), schemas.replica_sets.ReadReplicaSet, body)

    def delete_replica_set(self, service_id: str, set_id: str) -> None:
        """Delete a read replica set."""
        self.send("DELETE", self.path(service_id, "replicaSets", set_id))

    def resize_replica_set(self, service_id: str, set_id: str, cpu_millis: str, memory_gbs: str) -> None:
        """Resize each node of a set."""
        body = {"cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        self.send("POST", self.path(service_id, "replicaSets", set_id, "resize"), body)

    def set_replica_environment(self, service_id: str, set_id: str, environment: Environment) -> None:
        """Set the environment of a set: PROD or DEV."""
        path = self.path(service_id, "replicaSets", set_id, "setEnvironment")
        self.send("POST", path, {"environment": environment})

    def enable_replica_pooler(self, service_id: str, set_id: str) -> str:
        """Enable the pooler of a read replica set, and return the server's message."""
        return self.call("POST", self.path(service_id, "replicaSets", set_id, "enablePooler"), Success).message

    def disable_replica_pooler(self, service_id: str, set_id: str) -> str:
        """Disable the pooler of a read replica set, and return the server's message."""
        return self.call("POST", self.path(service_id, "replicaSets", set_id, "disablePooler"), Success).message
