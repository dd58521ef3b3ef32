"""Services that follow databases elsewhere."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection, given, source_fields
from ramet.client.life_spans import Keeping, kept_fields
from ramet.model.environment import Environment
from ramet.model.secret import Secret
from ramet.model.service_type import ServiceType
from ramet.model.upstream import FollowMethod


class Followers(Connection):
    """The operations on services that follow a source."""

    def follow_database(
        self,
        name: str,
        source_url: str,
        source_password: Secret | str,
        *,
        root_certificate: str | None = None,
        slot: str | None = None,
        create_slot: bool | None = None,
        archive: str | None = None,
        method: FollowMethod | None = None,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        pg_major: int | None = None,
        service_type: ServiceType | None = None,
        keeping: Keeping | None = None,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a service that follows a server elsewhere; its `initial_password` is in this answer only.

        The URL has no password. `root_certificate` is PEM, for sslmode=verify-ca and verify-full.
        """
        body = {
            **source_fields(name, source_url, source_password),
            "environment_tag": environment,
            **given(root_certificate=root_certificate, slot=slot, create_slot=create_slot, archive=archive),
            **given(method=method, cpu_millis=cpu_millis, memory_gbs=memory_gbs, pg_major=pg_major),
            **given(service_type=service_type),
            **kept_fields(keeping),
        }
        return self.make(self.project_path("followers"), Service, body, idempotency_key)

    def plan_follow(
        self, name: str, source_url: str, source_password: Secret | str, **fields: str | int | None
    ) -> schemas.following.FollowReport:
        """Return what following a source with these fields of a request would do; nothing is created."""
        body = {**source_fields(name, source_url, source_password), **given(**fields)}
        return self.call("POST", self.project_path("followers") + "?dry_run=true", schemas.following.FollowReport, body)

    def promote_service(
        self,
        service_id: str,
        *,
        wait_for_lsn: str | None = None,
        drain: bool = False,
        neutralize: bool = False,
        take_place: bool | None = None,
    ) -> Service:
        """Ask for the promotion of a service that follows a source.

        With `take_place` it is the service of another Ramet that it follows, from then on.
        """
        body = {"drain": drain, "neutralize": neutralize, **given(wait_for_lsn=wait_for_lsn, take_place=take_place)}
        return self.call("POST", self.path(service_id, "promote"), Service, body)
