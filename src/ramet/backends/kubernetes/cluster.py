"""What the parts of this backend share: the API server, what it was last heard to say, and the way into the servers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from ramet.archive.object_store import Bucket, open_bucket
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive_manifests, manifests, names
from ramet.backends.kubernetes.api import Api
from ramet.backends.kubernetes.archive_manifests import Recovery
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.job_logs import JobLogs
from ramet.backends.kubernetes.reports import Reports
from ramet.backends.kubernetes.resources import Cluster, ObjectStore, Pod, SecretObject, Service, StorageClass, Volume
from ramet.backends.kubernetes.site import Site
from ramet.backends.kubernetes.streaming import Copy
from ramet.backends.kubernetes.traits import Traits, noted_traits
from ramet.backends.kubernetes.tunnel import Tunnels
from ramet.backends.kubernetes.warnings import Warnings
from ramet.backends.kubernetes.watch import Watched
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import Connection
from ramet.errors import Failed, Unavailable

_POD_SECONDS, _POD_LOOK_SECONDS = 120.0, 0.1
_PSQL = ("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres")
# Each program in a pod is expensive to start: so the pod itself tries again, until the first column is true.
_UNTIL_TRUE = f"""
until said=$({" ".join(_PSQL)} -c "$1" 2>&1) && [ "${{said%%|*}}" = t ] || [ "$2" -le 0 ]; do
    set -- "$1" $(($2 - 1)); sleep 0.05
done
echo "$said"
"""


@dataclass(frozen=True)
class Place:
    """The namespaces of services. `forgetting` is called with the id of a service whose Cluster is gone."""

    api: Api
    site: Site
    forgetting: list[Callable[[str], None]] = field(default_factory=list)
    _with_store: set[str] = field(default_factory=set)

    @cached_property
    def clusters(self) -> Watched[Cluster]:
        """The Clusters of all services. Whichever process deletes one, this one forgets its service."""
        return Watched(self.api, Cluster, self._forget)

    def _forget(self, service_id: str) -> None:
        for forget in (self.tunnels.forget, self.reports.forget, *self.forgetting):
            forget(service_id)

    @cached_property
    def pods(self) -> Watched[Pod]:
        """The pods of all services."""
        return Watched(self.api, Pod)

    @cached_property
    def tunnels(self) -> Tunnels:
        """The ways to the servers' local sockets."""
        return Tunnels(self.api, self.primary_of)

    @cached_property
    def reports(self) -> Reports:
        """What the servers last said of themselves."""
        return Reports(self.api, self.primary_pod)

    @cached_property
    def warnings(self) -> Warnings:
        """What Kubernetes warns of about services."""
        return Warnings(self.api)

    @cached_property
    def job_logs(self) -> JobLogs:
        """What the operator's jobs say."""
        return JobLogs(self.api)

    def primary_of(self, service_id: str) -> str:
        """Return the name of the instance that can be written to, and of its volume."""
        found = self.clusters.get(names.cluster_name(service_id))
        return (found.status.current_primary if found else "") or names.volume_name(service_id)

    def primary_pod(self, service_id: str) -> Pod | None:
        """Return the primary's pod, if there is one."""
        return self.pods.get(self.primary_of(service_id))

    def paths(self, server: Server) -> ServicePaths:
        """Return where this process reaches the server's local socket."""
        return self.tunnels.paths(server.service_id, server.pg_major)

    @contextmanager
    def connect(self, server: Server) -> Iterator[Connection]:
        """Connect to a server as the platform. Raises Unavailable when it does not serve."""
        self.check_runs(server)
        with connections.connect(self.paths(server)) as connection:
            yield connection

    def check_runs(self, server: Server) -> None:
        """Raise Unavailable at once when the server's pod does not run: each connection would find that out slowly."""
        pod = self.primary_pod(server.service_id)
        if pod is None or not pod.runs:
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {server.service_id} is not running")

    def run_sql(self, service_id: str, text: str) -> str:
        """Run SQL as the superuser of the operator, in the pod; return what it answers. Raises Unavailable."""
        return self.api.run(self.primary_of(service_id), (*_PSQL, "-f", "-"), text).strip()

    def run_sql_until_true(self, service_id: str, query: str, tries: int) -> str:
        """Run a query as `run_sql` does, again and again until its first column is true; return what was said last."""
        return self.api.run(self.primary_of(service_id), ("sh", "-c", _UNTIL_TRUE, "sh", query, str(tries))).strip()

    def cluster_of(self, service_id: str) -> Cluster | None:
        """Return the Cluster of a service as it is now."""
        return self.api.get(Cluster, names.cluster_name(service_id))

    def volume_of(self, service_id: str) -> Volume:
        """Return the primary's volume, as the API server says now: what a watch said may be from before a failover.

        Raises Failed when there is none.
        """
        cluster = self.cluster_of(service_id)
        primary = (cluster.status.current_primary if cluster else "") or names.volume_name(service_id)
        found = self.api.get(Volume, primary)
        if found is None:
            raise Failed("VOLUME_LOST", f"The volume of service {service_id} is lost", "It cannot be started.")
        return found

    @cached_property
    def bucket(self) -> Bucket | None:
        """The off-host archive, as this process reaches it; None without one."""
        return None if self.site.archive is None else open_bucket(self.site.archive.url)

    def ensure_namespace(self, server: Server) -> None:
        """Make the namespace of a service's project and the object store in it, unless that was done."""
        self.api.ensure_namespace(server.service_id, server.project_id)
        self.ensure_store(server)

    def ensure_store(self, server: Server) -> None:
        """Make the object store in the namespace of a service with the keys of this process, unless that was done."""
        here = self.api.namespaces.learn(server.service_id, server.project_id)
        if self.site.archive is None or here in self._with_store:
            return
        keys = archive_manifests.store_keys(self.site.archive)
        if keys is not None:
            self.api.apply(SecretObject, keys, here)
        self.api.apply(ObjectStore, archive_manifests.object_store(self.site.archive), here)
        self._with_store.add(here)

    def apply(
        self,
        server: Server,
        phase: Phase,
        *,
        first: bool = False,
        asleep: bool = False,
        recovery: Recovery | Copy | None = None,
        parent_id: str | None = None,
        traits: Traits | None = None,
        volume_size: str | None = None,
    ) -> None:
        """Make the Cluster of a service and its endpoint, or change them to what they shall be.

        A fork whose volume the operator makes has one of the size of its parent's, and every fork its parent's traits.
        Otherwise it keeps those that it has, unless `traits` are given. `volume_size` is that of a volume that is not
        there yet.
        """
        self.ensure_namespace(server)
        size = self._volume_size(server, parent_id) or volume_size
        wanted = manifests.cluster(
            server,
            self.site,
            phase,
            first=first,
            asleep=asleep,
            volume_size=size,
            recovery=recovery,
            traits=self._traits(server, parent_id) if traits is None else traits,
        )
        self._apply_endpoint(server)
        self.api.apply(Cluster, wanted)

    def start_pod(self, wanted: manifests.Manifest, what: str) -> None:
        """Start a pod, unless it runs. Raises Unavailable when it does not start; `what` it does follows *The pod*."""
        starting = self.begin_pod(wanted, _POD_SECONDS)
        if starting is not None:
            raise Unavailable("POD_LATE", f"The pod {what} does not start", starting)

    def begin_pod(self, wanted: manifests.Manifest, seconds: float) -> str | None:
        """Start a pod, unless it runs, and watch it for so many seconds; say how far it is, None when it runs.

        One that has ended, or is going, is made again. One that runs is left as an earlier release has made it.
        """
        name, deadline = wanted["metadata"]["name"], time.monotonic() + seconds
        if self.api.get(Pod, name) is None:
            self.api.apply(Pod, wanted)
        while (pod := self.api.get(Pod, name)) is None or not pod.runs:
            if pod is None:
                self.api.apply(Pod, wanted)
            elif pod.has_ended:
                self.api.delete(Pod, name, grace_seconds=0)
            if time.monotonic() > deadline:
                return f"{name} is gone" if pod is None else pod.progress
            time.sleep(_POD_LOOK_SECONDS)
        return None

    def traits_of(self, service_id: str) -> Traits:
        """Return what is noted with the Cluster of a service."""
        found = self.cluster_of(service_id)
        return Traits() if found is None else noted_traits(found.metadata.annotations)

    def _traits(self, server: Server, parent_id: str | None) -> Traits:
        """Return the traits of a server: of a fork and a replica those that come with the data."""
        source_id = parent_id if server.primary is None else server.primary.service_id
        return self.traits_of(server.service_id) if source_id is None else Traits(self.traits_of(source_id).at_least)

    def _apply_endpoint(self, server: Server) -> None:
        """Make or change the Service, before a standby exists that it must not lead to."""
        if server.port and manifests.owner_of(server) == server.service_id:
            known = self.api.get(Service, names.cluster_name(server.service_id))
            had_standbys = known is not None and names.ROLE_LABEL in known.spec.get("selector", {})
            self.api.apply(Service, manifests.endpoint(server, self.site, had_standbys=had_standbys))

    def apply_open(self, server: Server) -> None:
        """Change the Cluster of a service that clients may use, with the settings of its first start if it has those.

        To change these, PostgreSQL would have to be restarted. Raises Failed where the Cluster is gone: its volumes
        are gone with it, and another one would be empty.
        """
        cluster = self.cluster_of(server.service_id)
        if cluster is None:
            raise Failed("VOLUME_LOST", f"The Cluster of service {server.service_id} is gone", "It cannot be changed.")
        self.apply(server, Phase.OPEN, first=names.FIRST_ANNOTATION in cluster.metadata.annotations)

    def has_first_settings(self, service_id: str) -> bool:
        """Tell whether a server has the settings of a fork's first start."""
        found = self.cluster_of(service_id)
        return found is not None and names.FIRST_ANNOTATION in found.metadata.annotations

    @cached_property
    def volumes_grow(self) -> bool:
        """Whether the storage class lets volumes grow; False where it cannot be read."""
        try:
            known = self.api.find_global(StorageClass)
        except Failed:
            return False
        return any(one.can_grow for one in known if one.is_used(self.site.storage_class))

    def _volume_size(self, server: Server, parent_id: str | None) -> str | None:
        """Return the size that the volume shall have: what it has, or what the settings say now, if it can grow.

        A replica's is a copy of its primary's, a fork's one of its parent's, if that is there.
        """
        volume = self.api.get(Volume, self.primary_of(server.service_id))
        if volume is None and server.primary is not None:
            volume = self.volume_of(server.primary.service_id)
        if volume is None and parent_id is not None:
            volume = self.api.get(Volume, self.primary_of(parent_id))
        if volume is None or volume.requested is None:
            return None
        grown = manifests.larger_size(volume.requested, self.site)
        return grown if grown != volume.requested and self.volumes_grow else volume.requested

    def close(self) -> None:
        """End what runs in this process; the services are not touched."""
        self.clusters.stop()
        self.pods.stop()
        self.tunnels.close()
        self.api.close()
