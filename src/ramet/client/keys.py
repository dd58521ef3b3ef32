"""The API keys of the project, and their logins in the databases of services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ramet.api import schemas
from ramet.client.connection import Connection, given
from ramet.model.login import USUAL_SECONDS

if TYPE_CHECKING:
    from ramet.model.rights import Role


class Keys(Connection):
    """The operations on keys, for those of admins, and on logins."""

    def list_keys(self) -> list[schemas.keys.Key]:
        """Return the keys of the project, oldest first, revoked ones too."""
        return self.call("GET", self.project_path("keys"), list[schemas.keys.Key])

    def create_key(
        self,
        name: str,
        role: Role,
        *,
        expires_at: str | None = None,
        parents: Sequence[str] | None = None,
        **limits: int | None,
    ) -> schemas.keys.KeyWithSecret:
        """Make a key; only this returns its secret. `expires_at` is RFC 3339; what is None is not sent.

        `limits` are max_fork_ttl_seconds, max_services, max_forks, max_cpu_millis, max_memory_gbs, max_storage_gbs.
        """
        body: dict[str, object] = {"name": name, "role": role, **given(expires_at=expires_at, **limits)}
        if parents is not None:
            body["parents"] = list(parents)
        return self.call("POST", self.project_path("keys"), schemas.keys.KeyWithSecret, body)

    def get_key(self, public_key: str) -> schemas.keys.Key:
        """Return one key."""
        return self.call("GET", self.project_path("keys", public_key), schemas.keys.Key)

    def update_key(self, public_key: str, **changes: object) -> schemas.keys.Key:
        """Change the fields of a key that are given; None removes an expiry or a limit."""
        return self.call("PUT", self.project_path("keys", public_key), schemas.keys.Key, changes)

    def rotate_key(self, public_key: str, overlap_seconds: int = 3600) -> schemas.keys.KeyWithSecret:
        """Give a key another secret, which only this returns; the present one is accepted for a while, too."""
        path, body = self.project_path("keys", public_key, "rotate"), {"overlap_seconds": overlap_seconds}
        return self.rotate(path, schemas.keys.KeyWithSecret, body)

    def create_login(
        self, service_id: str, ttl_seconds: int = USUAL_SECONDS, *, read_only: bool = False
    ) -> schemas.logins.LoginWithPassword:
        """Make a role of the key in the database of a service; only this returns its password."""
        body = {"ttl_seconds": ttl_seconds, "read_only": read_only}
        return self.call("POST", self.path(service_id, "logins"), schemas.logins.LoginWithPassword, body)

    def list_logins(self, service_id: str) -> list[schemas.logins.Login]:
        """Return the logins of a service that have not ended: those of the key, and for an admin all."""
        return self.call("GET", self.path(service_id, "logins"), list[schemas.logins.Login])

    def revoke_login(self, service_id: str, role: str) -> None:
        """End a login before its time: one of the key, or any for an admin."""
        self.send("DELETE", self.path(service_id, "logins", role))

    def revoke_key(self, public_key: str) -> None:
        """Revoke a key."""
        self.send("DELETE", self.project_path("keys", public_key))
