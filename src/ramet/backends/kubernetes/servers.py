"""The life of servers, each a Cluster of CloudNativePG."""

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from ramet.backends.interface.values import ExtensionUpdate, Maintenance, Observation, Readiness, Server
from ramet.backends.kubernetes import (
    departures,
    egress,
    manifests,
    names,
    probe,
    removal,
    retention,
    rolling,
    securing,
    stopped,
    waking,
)
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.copies import KubernetesCopies
from ramet.backends.kubernetes.poolers import KubernetesPoolers
from ramet.backends.kubernetes.reports import Report
from ramet.backends.kubernetes.resources import Cluster, Pod, Service, Volume, VolumeSnapshot
from ramet.backends.kubernetes.route import Route
from ramet.backends.kubernetes.site import Exposure
from ramet.backends.kubernetes.traits import CopyRight, noted_traits
from ramet.backends.local.sql import connections, extensions, read_only_access, roles
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.errors import Error, Failed, Unavailable
from ramet.model.passwords import Secret
from ramet.model.progress import with_warning
from ramet.model.service_type import ServiceType

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_OPEN_SECONDS = 60.0
_MAINTAIN_SECONDS = 60.0
_LETS_CLIENTS_IN = "EXISTS (SELECT FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256' AND type = 'hostssl')"
_IS_PRIMARY, _ANSWERS = f"SELECT NOT pg_is_in_recovery(), {_LETS_CLIENTS_IN}", "SELECT true"
_FOLLOWS_SECONDS = {True: 30.0, False: 0.5}
# It writes no event when it cannot make a volume, as under a quota.
_NOT_BEGUN = "the operator has not begun; its log says why, if that lasts"
_READ_ONLY = "default_transaction_read_only"
_END_WRITERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    " AND usename IS DISTINCT FROM %s AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL"
)


@dataclass(frozen=True)
class KubernetesServers:
    """Servers in pods; obeys ramet.backends.interface.servers.Servers."""

    place: Place
    poolers: KubernetesPoolers
    copies: KubernetesCopies
    read_only_roles: ReadOnlyRoles = field(default_factory=ReadOnlyRoles)
    route: Route = field(default_factory=Route)
    _maintained: dict[str, Report] = field(default_factory=dict)
    _following: dict[str, tuple[float, bool]] = field(default_factory=dict)

    @cached_property
    def renewal(self) -> egress.Renewal:
        """The renewal of what forks may connect to."""
        return egress.Renewal(self.place)

    def initialize(self, server: Server) -> None:
        """Make the Cluster; the operator makes its volume, and starts the server at once, closed to clients."""
        if self.place.cluster_of(server.service_id) is None:
            self.place.apply(server, Phase.CLOSED)

    def start(self, server: Server, *, clients: bool = False, first: bool = False) -> None:
        """Start the server, closed to clients or open, unless it was started with its size and wal_level.

        A fork that is open to clients must reach the API server to become ready, where that is now.
        """
        if clients:
            self.renewal.renew(server)
        cluster = self.place.cluster_of(server.service_id)
        if cluster is None and not (first and self._has_volume(server.service_id)):
            raise Failed("VOLUME_LOST", f"The volume of service {server.service_id} is lost", "It cannot be started.")
        if cluster is None or cluster.is_asleep or self._was_stopped(cluster, server):
            stopped.release_volume(self.place, server.service_id)
            self.place.apply(server, Phase.OPEN if clients else Phase.CLOSED, first=first)
            stopped.release_volume(self.place, server.service_id)  # of a pod that was begun before the Cluster changed

    def _was_stopped(self, cluster: Cluster, server: Server) -> bool:
        """Stop a server that does not become ready with the size or wal_level of a change that has failed.

        The operator gives another size to a pod that is not ready only if no node has room for it (CloudNativePG 1.30,
        internal/controller/cluster_upgrade.go).
        """
        if cluster.fits(manifests.resources_of(server.size), server.wal_level.value) or self._is_ready(server):
            return False
        waking.stop(self.place, server)
        return True

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Watch a starting server: it is ready as soon as PostgreSQL answers in its pod and can be written to.

        A replica only has to answer. One that lets clients in is ready when they reach it. Where load balancers lead to
        endpoints, that of the server has its address and its name.
        """
        deadline, lacking = time.monotonic() + timeout_seconds, None
        while True:
            pod = self.place.primary_pod(server.service_id)
            with contextlib.suppress(Unavailable):  # it has just begun, or recovers
                if pod is not None and pod.runs and self._is_started(server, deadline - time.monotonic()):
                    lacking = self._lacking(server)
                    if lacking is None:
                        return Readiness(True)
            if time.monotonic() >= deadline:
                return Readiness(False, lacking or self._awaited(server, pod))
            time.sleep(_LOOK_SECONDS)

    def _lacking(self, server: Server) -> str | None:
        """Say what the endpoint of a load balancer lacks; None where it has all."""
        has_own = server.port and manifests.owner_of(server) == server.service_id
        if self.place.site.exposure is not Exposure.LOADBALANCER or not has_own:
            return None
        service = self.place.api.get(Service, names.cluster_name(server.service_id))
        if service is not None and not service.is_balanced:
            warning = self.place.warnings.about(server.service_id)
            return with_warning(f"The load balancer of {server.host} has no address yet.", warning)
        return None if self.route.has_name(server) else f"The name {server.host} has no address yet."

    def _awaited(self, server: Server, pod: Pod | None) -> str:
        """Say how far the start is, and of a server that does not run what Kubernetes warns of."""
        said = self._copied(server) or self._progress(server.service_id, pod)
        runs = pod is not None and pod.runs
        return said if runs else with_warning(said, self.place.warnings.about(server.service_id))

    def _copied(self, server: Server) -> str | None:
        """Say how far the copy of a replica is, where it begins with one."""
        if server.primary is None or not self.copies.are_needed():
            return None
        return self.copies.progress(server.service_id, server.primary.service_id)

    def _is_started(self, server: Server, seconds: float) -> bool:
        query, tries = _ANSWERS if server.is_standby else _IS_PRIMARY, int(seconds / _LOOK_SECONDS)
        answer = self.place.run_sql_until_true(server.service_id, query, tries)
        writable, _, is_open = answer.partition("|")
        return writable == "t" and (is_open != "t" or (self._is_ready(server) and self.route.answers(server)))

    def secure(self, server: Server, *, is_new: bool, neutralize: bool) -> dict[str, Any]:
        """Give the server its own credentials; return what was neutralized, for the report."""
        self.place.check_runs(server)
        if is_new:
            securing.secure_new(self.place, server)
            return {}
        return securing.secure_fork(self.place, server, neutralize=neutralize)

    def open(self, server: Server) -> None:
        """Let clients in; return when the server asks them for a password over TLS, and its endpoint leads to it.

        The snapshot that its volume was made of, if it was, is not needed any more.
        """
        if server.service_type is ServiceType.TIMESERIESDB and not server.is_standby:
            securing.let_jobs_run(self.place, server)
        self.place.apply_open(server)
        egress.settle(self.place, server)
        self._await_open(server)
        self.place.api.delete(VolumeSnapshot, names.seed_name(server.service_id))
        self._start_pooler(server)

    def _start_pooler(self, server: Server) -> None:
        if server.pooler_port is not None:
            try:
                self.poolers.start([server], server.pooler_port)
            except Error as error:
                _log.warning("service %s serves without its pooler: %s", server.service_id, error)

    def resize(self, server: Server) -> bool:
        """Replace the instances one after another; return False where there is only one, which is stopped for that."""
        if server.standbys.count:
            rolling.resize(self.place, server)
            self._start_pooler(server)  # the size of its pools comes from the size of the servers
        return server.standbys.count > 0

    def stop(self, server: Server) -> None:
        """Stop the server cleanly, and its pooler before."""
        self.poolers.stop(server.service_id)
        waking.stop(self.place, server)

    def destroy(self, service_id: str) -> None:
        """Remove all that the service has in the namespace. Raises Unavailable while some of it is still there."""
        removal.destroy(self.place, service_id)
        if self.place.bucket is not None:
            retention.remove_unrestorable(self.place, service_id)

    def forget(self, service_id: str) -> None:
        """Forget a service that is gone."""
        self._maintained.pop(service_id, None)
        self._following.pop(service_id, None)
        self.read_only_roles.forget(service_id)
        self.renewal.forget(service_id)

    def refresh(self, server: Server) -> bool:
        """Give a serving server that an earlier release made what this one gives to new ones."""
        if server.is_standby:
            return True  # it has what its source has
        self.place.check_runs(server)
        return read_only_access.renew(self.place.paths(server))

    def set_password(self, server: Server, verifier: Secret) -> None:
        self.place.check_runs(server)
        roles.set_admin_verifier(self.place.paths(server), verifier, server.wal_level)

    def has_password(self, server: Server, password: Secret) -> bool | None:
        try:
            self.place.check_runs(server)
        except Unavailable:
            return None
        return roles.admin_has(self.place.paths(server), password)

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate] | None:
        self.place.check_runs(server)
        return extensions.update(self.place.paths(server), name)

    def inspect(self, server: Server) -> Observation:
        """Tell what the watches say: that costs no request. A replica is asked now and then what it receives.

        Only the API server says that a server is lost: the watch of this process may have stalled before it was made.
        """
        known = self.place.clusters.get(names.cluster_name(server.service_id))
        if known is None and self.place.cluster_of(server.service_id) is None:
            return Observation(False, f"The Cluster of service {server.service_id} is gone.", is_lost=True)
        pod = self.place.primary_pod(server.service_id)
        if pod is not None and pod.is_ready and pod.metadata.deleted_at is None:
            return Observation(True, follows=server.primary is None or self._follows(server))
        return Observation(False, self._progress(server.service_id, pod))

    def set_read_only(self, server: Server, *, read_only: bool) -> None:
        """Make new transactions read-only and end those that write, or lift that; wait until it is in force."""
        self.place.check_runs(server)
        value = "on" if read_only else "off"
        change = {"spec": {"postgresql": {"parameters": {_READ_ONLY: value if read_only else None}}}}
        self.place.api.patch(Cluster, names.cluster_name(server.service_id), change)
        deadline = time.monotonic() + _OPEN_SECONDS
        query = "SELECT setting FROM pg_file_settings WHERE name = %s AND applied ORDER BY seqno DESC LIMIT 1"
        with self.place.connect(server) as connection:
            while (connection.execute(query, (_READ_ONLY,)).fetchone() or ("off",))[0] != value:
                if time.monotonic() > deadline:
                    raise Unavailable("SETTING_LATE", f"Service {server.service_id} does not take {_READ_ONLY}={value}")
                time.sleep(_LOOK_SECONDS)
            connection.execute("SELECT pg_reload_conf()")
            if read_only:
                connection.execute(_END_WRITERS, (connections.PLATFORM_ROLE,))

    def maintain(self, server: Server, budget_seconds: float, now: datetime) -> Maintenance:
        """Take their rights to write from read-only roles, once a minute; logs are the cluster's business.

        Forks reach the API server where it is now. The pods of a pooler are replaced when the certificate in them is an
        old one. What servers archive with is made again in their namespace, once in each process: its keys may be
        others than those of the process before.
        """
        self.renewal.renew(server)
        with contextlib.suppress(Error):  # their pods say why they cannot archive
            self.place.ensure_store(server)
        if server.pooler_port is not None or server.primary is not None:
            with contextlib.suppress(Unavailable):  # the next call looks again
                self.poolers.keep_certificate(server.service_id)
        if server.is_standby:
            return Maintenance(None)
        with contextlib.suppress(Unavailable):  # it does not serve: that is for others to say
            report = self.place.reports.of(server.service_id, _MAINTAIN_SECONDS)
            self._clear_copy(server)
            is_new = report is not self._maintained.get(server.service_id)
            self._maintained[server.service_id] = report
            if report.has_read_only_roles:
                self._enforce_read_only_roles(server, is_new=is_new)
        return Maintenance(self._archive_delay(self._maintained.get(server.service_id)))

    def _enforce_read_only_roles(self, server: Server, *, is_new: bool) -> None:
        """Enforce them all after a new report, else go on with what was left then."""
        paths = self.place.paths(server)
        if is_new:
            (paths.data / "pg_wal").mkdir(exist_ok=True)
            (paths.data / "pg_wal" / "looked").touch()  # it is looked at again only after WAL was written
        self.read_only_roles.enforce(paths)

    def _clear_copy(self, server: Server) -> None:
        cluster = self.place.clusters.get(names.cluster_name(server.service_id))
        if cluster is not None and noted_traits(cluster.metadata.annotations).copy is CopyRight.REFUSED:
            departures.clear(self.place, server)

    def _archive_delay(self, report: Report | None) -> str | None:
        if self.place.bucket is None or report is None or not report.unarchived:
            return None
        segment = report.unarchived
        return f"WAL segment {segment} is not archived: the log of its pod's container plugin-barman-cloud says why"

    def _follows(self, server: Server) -> bool:
        known = self._following.get(server.service_id)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        max_age_seconds = _FOLLOWS_SECONDS[known is None or known[1]]
        try:
            found = self.place.reports.of(server.service_id, max_age_seconds).receives_wal
        except Unavailable:
            found = False
        self._following[server.service_id] = (time.monotonic() + _FOLLOWS_SECONDS[found], found)
        return found

    def _has_volume(self, service_id: str) -> bool:
        return self.place.api.get(Volume, names.volume_name(service_id)) is not None

    def _progress(self, service_id: str, pod: Pod | None) -> str:
        if pod is not None:
            return f"Pod {pod.progress}."
        others = [one.progress for one in self.place.pods.of_service(service_id)]
        cluster = self.place.clusters.get(names.cluster_name(service_id))
        if cluster is not None and cluster.is_asleep:
            return "Its server is stopped."
        phase = "" if cluster is None else f"{cluster.status.phase} {cluster.status.phase_reason}".strip()
        return f"Its server is not running: {'; '.join([phase, *others]).strip('; ') or _NOT_BEGUN}."

    def _await_open(self, server: Server) -> None:
        """Wait until the server asks a client for its password, and its endpoint leads to its pod."""
        deadline = time.monotonic() + _OPEN_SECONDS
        while not self._is_open(server):
            if time.monotonic() > deadline:
                raise Failed(
                    "ENDPOINT_NOT_SWITCHED",
                    f"The endpoint of service {server.service_id} does not answer clients",
                    self._progress(server.service_id, self.place.primary_pod(server.service_id)),
                )
            time.sleep(_LOOK_SECONDS)

    def _is_open(self, server: Server) -> bool:
        """Ask at the endpoint, where that can be reached from here; it may be one of several replicas, or nowhere."""
        if not self._is_ready(server):
            return False
        if server.primary is None and self.route.leads_to(server):
            return True
        has_endpoint = server.primary is None or server.port == server.primary.set_port
        return self._asks_password(server) and (not has_endpoint or self.route.answers(server))

    def _is_ready(self, server: Server) -> bool:
        pod = self.place.primary_pod(server.service_id)
        return pod is not None and pod.is_ready

    def _asks_password(self, server: Server) -> bool:
        """Ask from the pod itself, where no policy of a network counts."""
        pod = self.place.primary_pod(server.service_id)
        return pod is not None and probe.asks_password(self.place, server.service_id, pod.status.pod_ip)
