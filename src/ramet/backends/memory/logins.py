"""Logins in memory."""

from collections.abc import Sequence
from datetime import datetime

from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart
from ramet.model.passwords import Secret


class MemoryLogins(MemoryPart):
    """Logins of volumes, by role, with whether they are read-only; obeys ramet.backends.interface.logins.Logins."""

    def create(self, server: Server, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
        """Note it."""
        self._memory.running(server.service_id).logins[role] = read_only

    def drop(self, server: Server, roles: Sequence[str]) -> None:
        """Forget them."""
        volume = self._memory.running(server.service_id)
        volume.logins = {role: read_only for role, read_only in volume.logins.items() if role not in roles}

    def drop_all(self, server: Server) -> None:
        """Forget them all."""
        self._memory.running(server.service_id).logins.clear()
