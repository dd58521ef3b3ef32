"""Services: listed, made, forked, changed and deleted."""

from ramet.api.schemas.services import ExtensionUpdate, Service
from ramet.api.schemas.shared import Success
from ramet.client.connection import Connection, given
from ramet.model.credentials import Secret
from ramet.model.fork import ForkStrategy
from ramet.model.service import Environment, ServiceType


class Services(Connection):
    """The verbs over services."""

    def list_services(self) -> list[Service]:
        """Return the services of the project, oldest first."""
        return self.call("GET", self.path(), list[Service])

    def get_service(self, service_id: str) -> Service:
        """Return a service."""
        return self.call("GET", self.path(service_id), Service)

    def create_service(
        self,
        name: str,
        *,
        service_type: ServiceType = ServiceType.POSTGRES,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a new, empty service; its `initial_password` is in this answer only."""
        size = given(cpu_millis=cpu_millis, memory_gbs=memory_gbs)
        body = {"name": name, "service_type": service_type, "environment_tag": environment, **size}
        return self.call("POST", self.path(), Service, body, idempotency_key)

    def fork_service(
        self,
        service_id: str,
        strategy: ForkStrategy,
        *,
        target_time: str | None = None,
        snapshot_id: str | None = None,
        name: str | None = None,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        quiet: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a fork; its `initial_password` is in this answer only. What is None is inherited.

        `target_time` goes with PITR; `snapshot_id` with LAST_SNAPSHOT: that one instead of the newest.
        `quiet` pauses its scheduled jobs and takes foreign credentials away; None: for DEV forks.
        """
        fields = given(
            target_time=target_time,
            snapshot_id=snapshot_id,
            name=name,
            cpu_millis=cpu_millis,
            memory_gbs=memory_gbs,
            quiet=quiet,
        )
        body = {"fork_strategy": strategy, "environment_tag": environment, **fields}
        return self.call("POST", self.path(service_id, "forkService"), Service, body, idempotency_key)

    def start_service(self, service_id: str) -> Service:
        """Ask for a paused service to be resumed."""
        return self.call("POST", self.path(service_id, "start"), Service)

    def stop_service(self, service_id: str) -> Service:
        """Ask for a service to be paused."""
        return self.call("POST", self.path(service_id, "stop"), Service)

    def delete_service(self, service_id: str) -> None:
        """Ask for a service to be deleted with its snapshots and its archive."""
        self.send("DELETE", self.path(service_id))

    def rename_service(self, service_id: str, name: str) -> Service:
        """Give a service another name."""
        return self.call("POST", self.path(service_id, "rename"), Service, {"name": name})

    def resize_service(self, service_id: str, cpu_millis: str, memory_gbs: str) -> Service:
        """Ask for another size; 'shared' for both gives a share of the host. Wait as after a start."""
        body = {"cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        return self.call("POST", self.path(service_id, "resize"), Service, body)

    def optimize_service(self, service_id: str) -> Service:
        """Ask for fresh statistics; wait as after a start. The service serves meanwhile."""
        return self.call("POST", self.path(service_id, "optimize"), Service)

    def update_extensions(self, service_id: str, extension: str | None = None) -> list[ExtensionUpdate]:
        """Update one extension, or all, to the versions that are installed; return those that were not at them."""
        body = given(extension=extension)
        return self.call("POST", self.path(service_id, "updateExtensions"), list[ExtensionUpdate], body)

    def update_password(self, service_id: str, password: Secret) -> None:
        """Change the password of tsdbadmin; only the new one opens the service from now on."""
        self.send("POST", self.path(service_id, "updatePassword"), {"password": password.reveal()})

    def set_environment(self, service_id: str, environment: Environment) -> None:
        """Say how much is at stake."""
        self.send("POST", self.path(service_id, "setEnvironment"), {"environment": environment})

    def set_ha(self, service_id: str, replica_count: int, sync_replica_count: int = 0) -> Service:
        """Ask for high-availability replicas; a backend that has none refuses all counts but 0."""
        body = {"replica_count": replica_count, "sync_replica_count": sync_replica_count}
        return self.call("POST", self.path(service_id, "setHA"), Service, body)

    def enable_pooler(self, service_id: str) -> str:
        """Give a service a pooler, and return what is said of it; `connection_pooler` tells its address."""
        return self.call("POST", self.path(service_id, "enablePooler"), Success).message

    def disable_pooler(self, service_id: str) -> None:
        """Take a service's pooler away."""
        self.send("POST", self.path(service_id, "disablePooler"))
