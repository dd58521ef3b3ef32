"""Read replicas, each a Cluster that follows its primary's, and the standbys of a Cluster that take over."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import egress, manifests, names, snapshots
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.copies import KubernetesCopies
from ramet.backends.kubernetes.resources import Service, Volume
from ramet.backends.local.sql.connections import row
from ramet.errors import Unavailable
from ramet.model.high_availability import Standbys

_LOOK_SECONDS = 0.1
_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')"


@dataclass(frozen=True)
class KubernetesReplicas:
    """Replicas and standbys; obeys ramet.backends.interface.replicas.Replicas."""

    place: Place
    copies: KubernetesCopies

    def check_room(self, primary: Server) -> None:
        """Leave it to the storage, which makes a volume or says why not."""

    def create(self, replica: Server) -> bool:
        """Make the replica's Cluster of a snapshot of its primary's volume, or find the one of an earlier call.

        It stays a standby for good: it has its own size, and no failover of its primary chooses it. Where there are
        no snapshots, it is a copy of the primary.
        """
        if replica.primary is None:
            raise AssertionError("BUG: a replica without a primary")
        if self.place.cluster_of(replica.service_id) is not None:
            return True
        primary_id = replica.primary.service_id
        pod = self.place.primary_pod(primary_id)
        if pod is None or not pod.is_ready:
            return False
        self.place.api.ensure_namespace(replica.service_id, replica.project_id)
        if not self.copies.are_needed():
            seed = names.seed_name(replica.service_id)
            volume = self.place.volume_of(primary_id).metadata.name
            snapshots.take(self.place, replica.service_id, seed, volume)
        egress.follow(self.place, replica.service_id, primary_id)  # before it has a pod
        self.place.apply(replica, Phase.CLOSED)
        return True

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Make the Service of the set, which spreads connections over its pods."""
        self.place.api.apply(Service, manifests.endpoint(servers[0], self.place.site))

    def balancer_serves(self, service_id: str) -> bool:
        """Rely on the Service, which nothing can stop."""
        return True

    def check_standbys(self, standbys: Standbys) -> None:
        """Have any number: whether nodes are there for them is seen when they are made."""

    def set_standbys(self, server: Server, timeout_seconds: float) -> str | None:
        """Let the operator make or remove instances, and say how far it is."""
        found = self.place.cluster_of(server.service_id)
        if found is None or not found.has(server.standbys):
            self.place.apply_open(server)
        deadline = time.monotonic() + timeout_seconds
        while progress := self._missing(server):
            if any("-join-" in one.metadata.name for one in self.place.pods.of_service(server.service_id)):
                progress = "; ".join(filter(None, [progress, self.copies.hurried(server.service_id)]))
            if time.monotonic() >= deadline:
                return progress
            time.sleep(_LOOK_SECONDS)
        return None

    def _missing(self, server: Server) -> str | None:
        found = self.place.clusters.get(names.cluster_name(server.service_id))
        wanted = server.standbys.count + 1
        if found is None:
            return "the Cluster is not there"
        status = found.status
        if (status.instances, status.ready_instances) != (wanted, wanted):
            phase = f"{status.phase} {status.phase_reason}".strip()
            return f"{status.ready_instances} of {wanted} instances are ready: {phase}"
        volumes = self.place.api.find(Volume, {names.CLUSTER_LABEL: found.metadata.name})
        if len(volumes) != wanted:
            return f"{len(volumes)} volumes are there, and {wanted} are wanted"
        if server.standbys.synchronous:
            confirming = self._synchronous(server)
            if confirming < server.standbys.synchronous:
                return f"{confirming} of {server.standbys.synchronous} standbys confirm commits"
        return None

    def _synchronous(self, server: Server) -> int:
        try:
            with self.place.connect(server) as connection:
                return int(row(connection, _SYNCHRONOUS)[0])
        except Unavailable:
            return 0
