"""Services with the contents of databases elsewhere."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection, given, source_fields
from ramet.client.life_spans import Keeping, kept_fields
from ramet.model.environment import Environment
from ramet.model.secret import Secret
from ramet.model.service_type import ServiceType


class Imports(Connection):
    """The operations on imports."""

    def import_service(
        self,
        name: str,
        source_url: str,
        source_password: Secret | str,
        *,
        root_certificate: str | None = None,
        keep_owners: bool = True,
        service_type: ServiceType = ServiceType.POSTGRES,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        pg_major: int | None = None,
        keeping: Keeping | None = None,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a service with the contents of a database; its `initial_password` is in this answer only.

        The URL has no password. `root_certificate` is PEM, for sslmode=verify-ca and verify-full.
        """
        fields = given(
            service_type=service_type,
            keep_owners=keep_owners,
            root_certificate=root_certificate,
            cpu_millis=cpu_millis,
            memory_gbs=memory_gbs,
            pg_major=pg_major,
        )
        kept = kept_fields(keeping)
        body = {**source_fields(name, source_url, source_password), "environment_tag": environment, **fields, **kept}
        return self.make(self.project_path("imports"), Service, body, idempotency_key)

    def plan_import(
        self, name: str, source_url: str, source_password: Secret | str, **fields: str | int | None
    ) -> schemas.imports.ImportReport:
        """Return what an import with these fields of a request would do; nothing is created."""
        body = {**source_fields(name, source_url, source_password), **given(**fields)}
        return self.call("POST", self.project_path("imports") + "?dry_run=true", schemas.imports.ImportReport, body)

    def import_report(self, service_id: str) -> schemas.imports.ImportReport:
        """Return what an import changed and how it ended, also of one that failed."""
        return self.call("GET", self.path(service_id, "importReport"), schemas.imports.ImportReport)
