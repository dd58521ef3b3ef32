"""Logins in the servers of this host."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import logins
from ramet.model.passwords import Secret


@dataclass(frozen=True)
class LocalLogins:
    """Roles of running servers; obeys ramet.backends.interface.logins.Logins."""

    instances: Instances

    def create(self, server: Server, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
        logins.create(self.instances.paths(server.service_id), role, verifier, until, read_only=read_only)

    def drop(self, server: Server, roles: Sequence[str]) -> None:
        logins.drop(self.instances.paths(server.service_id), roles)

    def drop_all(self, server: Server) -> None:
        logins.drop_all(self.instances.paths(server.service_id))
