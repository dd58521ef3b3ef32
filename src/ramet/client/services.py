"""Services: listed, made, forked, changed and deleted."""

from collections.abc import Iterator, Sequence

from ramet.api.schemas.services import ExtensionUpdate, Service
from ramet.api.schemas.shared import Success
from ramet.client.connection import Connection, given, query_of, revealed
from ramet.client.life_spans import Keeping, kept_fields
from ramet.model.environment import Environment
from ramet.model.secret import Secret
from ramet.model.service_type import ServiceType
from ramet.model.wal_level import WalLevel


class Services(Connection):
    """The operations on services."""

    def list_services(self, labels: Sequence[str] = ()) -> list[Service]:
        """Return the services of the project, oldest first; with `labels` (key=value or key) those that have them."""
        return self.call("GET", self.path() + query_of({"label": labels} if labels else {}), list[Service])

    def iterate_services(self, labels: Sequence[str] = (), *, page_size: int = 500) -> Iterator[Service]:
        """Yield the services that `list_services` returns, read page by page, each of up to 500."""
        for page in self.pages(self.path() + query_of({"label": labels, "limit": str(page_size)}), list[Service]):
            yield from page

    def get_service(self, service_id: str, *, wait_seconds: int = 0) -> Service:
        """Return a service: with `wait_seconds` when no operation changes its status any more, or after that time.

        `wait_ready` and its siblings wait longer, and survive a restart of the server.
        """
        return self.call("GET", self.path(service_id), Service, wait_seconds=wait_seconds)

    def create_service(
        self,
        name: str,
        *,
        service_type: ServiceType = ServiceType.POSTGRES,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        wal_level: WalLevel | None = None,
        pg_major: int | None = None,
        keeping: Keeping | None = None,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a new, empty service; its `initial_password` is in this answer only."""
        chosen = given(cpu_millis=cpu_millis, memory_gbs=memory_gbs, wal_level=wal_level, pg_major=pg_major)
        chosen |= kept_fields(keeping)
        body = {"name": name, "service_type": service_type, "environment_tag": environment, **chosen}
        return self.make(self.path(), Service, body, idempotency_key)

    def start_service(self, service_id: str) -> Service:
        """Ask for a paused service to be resumed."""
        return self.call("POST", self.path(service_id, "start"), Service)

    def stop_service(self, service_id: str) -> Service:
        """Pause a service."""
        return self.call("POST", self.path(service_id, "stop"), Service)

    def delete_service(self, service_id: str) -> None:
        """Delete a service with its snapshots and its local archive; what the off-host one has expires there."""
        self.send("DELETE", self.path(service_id))

    def rename_service(self, service_id: str, name: str) -> Service:
        """Rename a service."""
        return self.call("POST", self.path(service_id, "rename"), Service, {"name": name})

    def resize_service(self, service_id: str, cpu_millis: str, memory_gbs: str) -> Service:
        """Resize a service; 'shared' for both shares the host's resources. Wait as after a start."""
        body = {"cpu_millis": cpu_millis, "memory_gbs": memory_gbs}
        return self.call("POST", self.path(service_id, "resize"), Service, body)

    def optimize_service(self, service_id: str) -> Service:
        """Run ANALYZE on all databases; wait as after a start. The service still accepts connections."""
        return self.call("POST", self.path(service_id, "optimize"), Service)

    def update_extensions(self, service_id: str, extension: str | None = None) -> list[ExtensionUpdate]:
        """Update one extension, or all, to the versions that are installed; return those that were not at them."""
        body = given(extension=extension)
        return self.call("POST", self.path(service_id, "updateExtensions"), list[ExtensionUpdate], body)

    def update_password(self, service_id: str, password: Secret | str) -> None:
        """Change the password of tsdbadmin; new sessions need the new one."""
        self.send("POST", self.path(service_id, "updatePassword"), {"password": revealed(password)})

    def set_environment(self, service_id: str, environment: Environment) -> None:
        """Set the environment: PROD (a restore or a move needs its name) or DEV (neutralized when forked)."""
        self.send("POST", self.path(service_id, "setEnvironment"), {"environment": environment})

    def set_ha(self, service_id: str, replica_count: int, sync_replica_count: int = 0) -> Service:
        """Set the number of high-availability replicas, and how many of them are synchronous; wait as after a start.

        A backend of one host refuses all counts but 0.
        """
        body = {"replica_count": replica_count, "sync_replica_count": sync_replica_count}
        return self.call("POST", self.path(service_id, "setHA"), Service, body)

    def enable_pooler(self, service_id: str) -> str:
        """Enable the pooler of a service, and return the server's message; `connection_pooler` contains its address."""
        return self.call("POST", self.path(service_id, "enablePooler"), Success).message

    def disable_pooler(self, service_id: str) -> str:
        """Disable the pooler of a service, and return the server's message."""
        return self.call("POST", self.path(service_id, "disablePooler"), Success).message
