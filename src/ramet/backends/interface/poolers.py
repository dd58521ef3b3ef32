"""Connection poolers in front of services and read replica sets."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Server, Sessions


class Poolers(Protocol):
    """The poolers. Stopping a server stops its pooler, and opening a server with a pooler port starts it."""

    def check(self) -> str:
        """Return what clients of a transaction pool must know here, empty for nothing.

        Raises Invalid, saying what to install, when there can be no poolers.
        """

    def check_database(self, server: Server) -> None:
        """Raise Invalid when a serving primary lacks the database that poolers are for."""

    def start(self, servers: Sequence[Server], port: int) -> None:
        """Make the pooler of serving servers answer clients on `port`; it is the first one's. May run when it does."""

    def stop(self, service_id: str) -> None:
        """End the pooler of a service, if it has one, and remove it."""

    def serves(self, service_id: str) -> bool:
        """Tell whether the pooler of a service runs."""

    def sessions(self, server: Server) -> Sessions | None:
        """Return the sessions of clients on a server and on its pooler; None when it does not serve.

        Those of the platform, of replicas and of a pooler without clients do not count.
        """
