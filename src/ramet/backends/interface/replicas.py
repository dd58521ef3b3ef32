"""Read replicas, the balancer that makes several of them one endpoint, and standbys that take over."""

from collections.abc import Sequence
from typing import Protocol

from ramet.backends.interface.values import Server
from ramet.errors import Invalid
from ramet.model.high_availability import Standbys


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

    def check_standbys(self, standbys: Standbys) -> None:
        """Raise Invalid where a service cannot have so many standbys; none are always possible."""

    def set_standbys(self, server: Server, timeout_seconds: float) -> str | None:
        """Give a serving server the standbys that it names; watch that for at most `timeout_seconds`.

        None when each of them streams WAL and no other one is there, else a text that changes with the progress.
        """


def refuse_standbys(standbys: Standbys) -> None:
    """Raise Invalid for any standbys, as a backend does that has one host."""
    if standbys.count:
        raise Invalid(
            "HA_NOT_AVAILABLE",
            f"{standbys.count} high-availability replicas need more than one host, and this backend has one",
            "Send 0.",
        )
