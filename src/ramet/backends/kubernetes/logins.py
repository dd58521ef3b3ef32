"""Logins in the servers of services."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.sql import logins
from ramet.model.passwords import Secret


@dataclass(frozen=True)
class KubernetesLogins:
    """Roles of running servers; obeys ramet.backends.interface.logins.Logins."""

    place: Place

    def create(self, server: Server, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
        self.place.check_runs(server)
        logins.create(self.place.paths(server), role, verifier, until, read_only=read_only)

    def drop(self, server: Server, roles: Sequence[str]) -> None:
        self.place.check_runs(server)
        logins.drop(self.place.paths(server), roles)

    def drop_all(self, server: Server) -> None:
        self.place.check_runs(server)
        logins.drop_all(self.place.paths(server))
