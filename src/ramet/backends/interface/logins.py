"""Logins of single people and programs in the databases of a server, which end by themselves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from ramet.backends.interface.values import Server
from ramet.model.passwords import Secret


class Logins(Protocol):
    """Roles that belong to a key, and are dropped with it. No fork has those of its parent."""

    def create(self, server: Server, role: str, verifier: Secret, until: datetime, *, read_only: bool) -> None:
        """Create a role in a serving server that can log in until a time; may run again.

        It has the rights of the admin, or with `read_only` reads what the admin can read.
        """

    def drop(self, server: Server, roles: Sequence[str]) -> None:
        """End the sessions of roles of a serving server, give what they own to the admin, and drop them.

        A role that is not there is no error. Raises Unavailable when something else keeps one from being dropped.
        """

    def drop_all(self, server: Server) -> None:
        """Drop the logins of a running server that was recovered: they belong to keys of the lost host. May run again.

        One that something keeps from being dropped cannot log in. Raises Unavailable when one still can.
        """
