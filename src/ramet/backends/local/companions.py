"""The part of the local backend that runs what stands beside a server: poolers, replicas, balancers."""

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.backends.base import Server
from ramet.backends.local.context import Host
from ramet.backends.local.pooler.pgbouncer import advice_for_clients, find_pgbouncer
from ramet.backends.local.pooler.pooler import BALANCER, Poolers, check_database
from ramet.backends.local.replica import Replicas


@dataclass(frozen=True)
class Companions(Host):
    """The methods of ramet.backends.base.Backend about poolers and replicas."""

    def check_pooler(self) -> str:
        """Return what clients of a transaction pool must heed. Raises Invalid when this host has no PgBouncer."""
        return advice_for_clients(find_pgbouncer())

    def check_pooled_database(self, server: Server) -> None:
        """Raise Invalid when a server that serves and follows nobody lacks the database that poolers are for."""
        check_database(self.servers.paths(server.service_id))

    def replicate(self, replica: Server) -> bool:
        """Make the replica's volume from its primary; False means that that is not serving at this moment."""
        return Replicas(self.servers, self.pool.driver).replicate(replica)

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Make `port` the endpoint of several replicas that serve, in turns; it is the first one's."""
        Poolers(self.servers, BALANCER).start(servers, port)

    def balancer_serves(self, service_id: str) -> bool:
        """Tell whether the balancer that a replica carries runs."""
        return Poolers(self.servers, BALANCER).serves(service_id)

    def start_pooler(self, servers: Sequence[Server], port: int) -> None:
        """Make the pooler of serving servers answer clients on `port`; it is the first one's."""
        Poolers(self.servers).start(servers, port)

    def stop_pooler(self, service_id: str) -> None:
        """End the pooler of a service, if it has one, and remove it."""
        Poolers(self.servers).stop(service_id)

    def pooler_serves(self, service_id: str) -> bool:
        """Tell whether the pooler of a service runs."""
        return Poolers(self.servers).serves(service_id)
