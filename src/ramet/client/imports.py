"""Services with the contents of databases elsewhere."""

from ramet.api.schemas.imports import ImportReport
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection, given
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service import ServiceType


class Imports(Connection):
    """The operations on imports."""

    def import_service(
        self,
        name: str,
        source_url: str,
        source_password: Secret,
        *,
        root_certificate: str | None = None,
        keep_owners: bool = True,
        service_type: ServiceType = ServiceType.POSTGRES,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a service with the contents of a database; its `initial_password` is in this answer only.

        The URL has no password. `root_certificate` is PEM, for sslmode=verify-ca and verify-full.
        """
        body = {
            **_body(name, source_url, source_password, root_certificate, service_type, keep_owners=keep_owners),
            "environment_tag": environment,
            **given(cpu_millis=cpu_millis, memory_gbs=memory_gbs),
        }
        return self.call("POST", self.project_path("imports"), Service, body, idempotency_key)

    def plan_import(
        self,
        name: str,
        source_url: str,
        source_password: Secret,
        *,
        root_certificate: str | None = None,
        keep_owners: bool = True,
        service_type: ServiceType = ServiceType.POSTGRES,
    ) -> ImportReport:
        """Return what an import would do; nothing is created."""
        body = _body(name, source_url, source_password, root_certificate, service_type, keep_owners=keep_owners)
        return self.call("POST", self.project_path("imports") + "?dry_run=true", ImportReport, body)

    def import_report(self, service_id: str) -> ImportReport:
        """Return what an import changed and how it ended, also of one that failed."""
        return self.call("GET", self.path(service_id, "importReport"), ImportReport)


def _body(
    name: str,
    source_url: str,
    source_password: Secret,
    root_certificate: str | None,
    service_type: ServiceType,
    *,
    keep_owners: bool,
) -> dict[str, object]:
    return {
        "name": name,
        "source_url": source_url,
        "source_password": source_password.reveal(),
        "service_type": service_type,
        "keep_owners": keep_owners,
        **given(root_certificate=root_certificate),
    }
