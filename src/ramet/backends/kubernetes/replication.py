"""What servers elsewhere read of the servers of services here."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from ramet.backends.interface.replication import ReplicationSlot, ReplicationSlots, Trust
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import departures, names, securing, stopped
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.manifests import is_address
from ramet.backends.kubernetes.resources import SecretObject
from ramet.backends.local.replication import mark_of, slots_of
from ramet.backends.local.sql import mover, roles
from ramet.backends.local.sql.unlogged import unlogged_tables
from ramet.errors import Unavailable
from ramet.model.passwords import Secret

_OF_STANDBYS = "_cnpg_"  # the operator makes and drops these slots


@dataclass(frozen=True)
class KubernetesReplication:
    """Slots and roles of running servers; obeys ramet.backends.interface.replication.Replication."""

    place: Place

    def slots(self, server: Server, *, reads_volume: bool = True) -> ReplicationSlots:
        """Return the slots that a running server reports, or those in the files of a stopped one, which a pod reads."""
        cluster = self.place.cluster_of(server.service_id)
        if cluster is None or (cluster.is_asleep and not reads_volume):
            return ReplicationSlots(None, [])
        if cluster.is_asleep:
            return ReplicationSlots(None, _own([*map(ReplicationSlot, stopped.slot_names(self.place, server))]))
        with self.place.connect(server) as connection:
            found = slots_of(connection)
        return ReplicationSlots(found.limit_bytes, _own(found.slots))

    def commit_mark(self, server: Server) -> str | None:
        """Ask the server; one that does not answer has no mark."""
        try:
            with self.place.connect(server) as connection:
                return mark_of(connection)
        except (psycopg.OperationalError, Unavailable):
            return None

    def permit(self, server: Server) -> None:
        self.place.check_runs(server)
        with self.place.connect(server) as connection, connection.transaction():
            roles.set_admin_replication(connection, server.wal_level)
            securing.let_standbys_stream(connection)

    def admit_copy(self, server: Server, verifier: Secret) -> str:
        return departures.admit(self.place, server, verifier)

    def hasten_copy(self, server: Server) -> None:
        self.place.check_runs(server)
        with self.place.connect(server) as connection:
            mover.hasten(connection)

    def refuse_copy(self, server: Server) -> None:
        departures.refuse(self.place, server)

    def end_lsn(self, server: Server) -> str | None:
        return departures.end_lsn(self.place, server)

    def unlogged_tables(self, server: Server) -> list[str]:
        self.place.check_runs(server)
        return unlogged_tables(self.place.paths(server))

    def trust(self, server: Server) -> Trust | None:
        """Return the authority of the Cluster. Its certificates have names only, no addresses."""
        secret = self.place.api.get(SecretObject, names.authority_name(server.service_id))
        if secret is None:
            raise Unavailable("NO_AUTHORITY", f"The Cluster of service {server.service_id} has no authority yet")
        return Trust(secret.text("ca.crt"), names_host=not is_address(server.host))


def _own(found: Sequence[ReplicationSlot]) -> list[ReplicationSlot]:
    return [one for one in found if not one.name.startswith(_OF_STANDBYS)]
