"""The admin of a service, and its roles, as clients."""

from dataclasses import dataclass, field

import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.model.passwords import Secret
from tests.backends.local.hosts import connect

OFF = "SET default_transaction_read_only = off"


@dataclass(frozen=True)
class Tenant:
    instances: Instances
    server: Server
    password: Secret
    read_only_roles: ReadOnlyRoles = field(default_factory=ReadOnlyRoles)

    def run(self, *statements: str, **changes: str) -> list[tuple[object, ...]]:
        secret = changes.pop("password", self.password)
        with connect(self.server, secret, sslmode="prefer", **changes) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def as_role(self, role: str, *statements: str, **changes: str) -> list[tuple[object, ...]]:
        return self.run(OFF, *statements, user=role, password="secret", **changes)

    def enforce(self) -> None:
        self.read_only_roles.enforce(self.instances.paths(self.server.service_id))

    def can_write(self, role: str, *statements: str, **changes: str) -> bool:
        try:
            self.as_role(role, *statements, **changes)
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True
