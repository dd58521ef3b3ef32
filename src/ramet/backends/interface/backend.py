"""What the rest of Ramet asks of the place where PostgreSQL servers run: protocols of at most 15 methods each.

Every method may run twice, also after a crash half way: it checks what is there first, then acts. Nothing here knows
of operations, leases or the store. Errors: `Failed` when repeating cannot help; any other exception is retried by the
caller.
"""

from typing import Protocol

from ramet.backends.interface.admission import Admission
from ramet.backends.interface.archive import Archive
from ramet.backends.interface.copies import Copies
from ramet.backends.interface.endpoints import Endpoints
from ramet.backends.interface.followers import Followers
from ramet.backends.interface.host import Host
from ramet.backends.interface.insight import Insight
from ramet.backends.interface.logins import Logins
from ramet.backends.interface.parameters import Parameters
from ramet.backends.interface.poolers import Poolers
from ramet.backends.interface.replacements import Replacements
from ramet.backends.interface.replicas import Replicas
from ramet.backends.interface.replication import Replication
from ramet.backends.interface.restore import Restore
from ramet.backends.interface.servers import Servers
from ramet.backends.interface.sources import Sources
from ramet.backends.interface.subscriptions import Subscriptions
from ramet.backends.interface.upgrades import Upgrades


class Backend(Protocol):
    """A place where PostgreSQL servers run."""

    @property
    def servers(self) -> Servers:
        """The life of single servers."""

    @property
    def restore(self) -> Restore:
        """Snapshots, archived WAL, and the forks that are made of them."""

    @property
    def copies(self) -> Copies:
        """Forks without snapshots."""

    @property
    def replacements(self) -> Replacements:
        """Other data for a service at its own endpoint."""

    @property
    def replicas(self) -> Replicas:
        """Read replicas."""

    @property
    def poolers(self) -> Poolers:
        """Connection poolers."""

    @property
    def endpoints(self) -> Endpoints:
        """Endpoints of services that may sleep."""

    @property
    def archive(self) -> Archive:
        """The off-host archive."""

    @property
    def admission(self) -> Admission:
        """How many more servers there may be."""

    @property
    def logins(self) -> Logins:
        """Logins of single people and programs."""

    @property
    def sources(self) -> Sources:
        """Databases elsewhere whose contents become a service."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Services that receive the changes of a database elsewhere by logical replication."""

    @property
    def replication(self) -> Replication:
        """Logical replication to servers elsewhere."""

    @property
    def insight(self) -> Insight:
        """What serving servers do."""

    @property
    def parameters(self) -> Parameters:
        """Settings of PostgreSQL that services have of their own."""

    @property
    def upgrades(self) -> Upgrades:
        """Other major versions of PostgreSQL."""

    @property
    def followers(self) -> Followers:
        """Standbys of databases elsewhere."""

    @property
    def host(self) -> Host:
        """What all servers share."""

    @property
    def authority(self) -> str:
        """The certificate authority of all endpoints, as PEM; empty where each service has its own."""

    def close(self) -> None:
        """End what this process has opened; the servers keep running."""
