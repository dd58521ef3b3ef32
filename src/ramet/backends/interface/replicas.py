"""Read replicas, and the balancer that makes several of them one endpoint."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Server


class Replicas(Protocol):
    """The nodes of read replica sets. Their servers are started, opened and stopped like any other."""

    def check_room(self, primary: Server) -> None:
        """Raise Exhausted when the storage has no room for a replica of `primary`."""

    def create(self, replica: Server) -> bool:
        """Make the replica's volume from its primary, which is not harmed; started, it follows that.

        False means that the primary's server is not serving now: ask again.
        """

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Make `port` the endpoint of several replicas that serve, in turns; it is the first one's."""

    def balancer_serves(self, service_id: str) -> bool:
        """Tell whether the balancer that a replica carries runs."""
