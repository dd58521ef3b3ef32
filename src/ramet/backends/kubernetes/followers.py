"""Standbys of services of another Ramet, which move here: each a replica cluster of CloudNativePG.

The operator copies and streams. Nothing else can be followed: a standby has the roles of its source, and the operator
enters its servers as one of them (see ramet.backends.local.sql.mover).
"""

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Progress, Server
from ramet.backends.kubernetes import jobs, logs, manifests, names, securing
from ramet.backends.kubernetes.absent import refuse
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.kept import Kept
from ramet.backends.kubernetes.resources import Cluster, Node, SecretObject
from ramet.backends.kubernetes.traits import Traits, noted_traits
from ramet.backends.local.followers import lag, source_end
from ramet.backends.local.followers.examine import examine
from ramet.backends.local.followers.recovery_log import OF_RECOVERY
from ramet.backends.local.sources.sources import connected
from ramet.backends.local.sql.connections import value
from ramet.backends.local.sql.mover import MOVER_ROLE, OPERATOR_ROLE
from ramet.backends.local.wal.segment import segment_before
from ramet.backends.local.wal.waldump import last_arguments, shows_shutdown
from ramet.errors import Failed, Invalid, Unavailable, Unseen
from ramet.machine import sealing
from ramet.model.passwords import Secret
from ramet.model.upstream import COPIED_AGAIN, Following

_PURPOSE = "passwords of sources"
_MOVE_AGAIN = "It cannot follow any more: call the move off, and move the service again."
_LOOK_SECONDS, _LOG_SECONDS = 0.1, 10.0
_FREE_BYTES = 1 << 60
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_NOT_IN_IMAGES = {"timescaledb", "timescaledb_toolkit", "vector", "vectorscale", "postgis", "pg_cron", "pg_partman"}
# It also ends with an error where WAL ends.
_PRINT = 'PATH="/usr/lib/postgresql/$1/bin:$PATH"; shift; LC_ALL=C pg_waldump "$@" || true'
_WAL = f"{names.DATA_DIRECTORY}/pgdata/pg_wal"
_AT_LEAST = (
    *("max_connections", "max_locks_per_transaction", "max_prepared_transactions"),
    *("max_wal_senders", "max_worker_processes", "max_active_replication_origins"),
    "max_replication_slots",  # before 18 that is the limit of origins, too
)
_OPERATOR = "SELECT rolsuper FROM pg_roles WHERE rolname = %s"
_SETTINGS = "SELECT name, setting::int FROM pg_show_all_settings() WHERE name = ANY(%s)"
_STATE = "SELECT pg_is_in_recovery(), current_setting('max_logical_replication_workers') <> '0'"
_HAS_NO_WORKERS = "SELECT current_setting('max_logical_replication_workers') = '0'"
_REPLAYED = "SELECT pg_last_wal_replay_lsn()"
# The operator restarts a server that archives as a standby does: it must not be open before.
_IS_PROMOTED = "SELECT NOT pg_is_in_recovery() AND current_setting('archive_mode') <> 'always'"
_TIMELINE = "SELECT max(left(name, 8)) FROM pg_ls_waldir() WHERE length(name) = 24 AND name LIKE %s"


@dataclass(frozen=True)
class KubernetesFollowers:
    """Replica clusters; obeys ramet.backends.interface.followers.Followers. `root_key` seals passwords."""

    place: Place
    root_key: Callable[[], bytes]
    _logged: Kept[list[str]] = field(default_factory=Kept)
    _watch: source_end.Watch = field(default_factory=source_end.Watch)

    def seal(self, password: Secret) -> str:
        """Return the password of a source in a form that only this installation can read."""
        return sealing.seal(self.root_key(), _PURPOSE, "", password)

    def examine(
        self, source: SourceAddress, password: Secret, archive: str | None = None
    ) -> tuple[UpstreamFacts, HostFacts]:
        if source.user != MOVER_ROLE or archive is not None:
            refuse("services that follow a database elsewhere, but for services of another Ramet that move here")
        facts = _with_operator(examine(source, password), source, password)
        site = self.place.site
        return facts, HostFacts(
            majors=tuple(sorted(site.majors)),
            machine=self._machine(),
            free_bytes=_FREE_BYTES,  # its volume is made as large as it must be
            missing_extensions=tuple(one for one in facts.extensions if one in _NOT_IN_IMAGES - {*site.extensions}),
        )

    def keep(self, server: Server, sealed: str) -> None:
        """Make the Secret by which the operator streams, and note the settings that a standby needs with it."""
        upstream = server.required_upstream
        try:
            password = sealing.unseal(self.root_key(), _PURPOSE, "", sealed)
        except ValueError as error:
            raise Failed("SEALED_ELSEWHERE", "The password of the source was sealed with another key") from error
        with connected(SourceAddress.of(upstream), password) as (connection, _):
            at_least = dict(connection.execute(_SETTINGS, (list(_AT_LEAST),)).fetchall())
        self.place.ensure_namespace(server)
        secret = manifests.source_access(server.service_id, upstream, password, Traits(at_least))
        self.place.api.apply(SecretObject, secret)

    def fetch(self, server: Server, size_bytes: int, timeout_seconds: float) -> Progress:
        """Make the Cluster, closed to clients, and watch the job that copies."""
        if self.place.cluster_of(server.service_id) is None:
            size = manifests.size_for(size_bytes, self.place.site)
            self.place.apply(server, Phase.CLOSED, traits=self._traits(server), volume_size=size)
        deadline = time.monotonic() + timeout_seconds
        while True:
            pod = self.place.primary_pod(server.service_id)
            if pod is not None and pod.runs:
                return Progress({})
            doing = jobs.progress(self.place, server.service_id, f"The copy of {server.required_upstream}")
            if time.monotonic() > deadline:
                advance = jobs.advance(self.place, server.service_id)
                return Progress(None, "; ".join(filter(None, [doing, advance])))
            time.sleep(_LOOK_SECONDS)

    def copy_again(self, server: Server, timeout_seconds: float) -> Progress:
        refuse("second copies of a source: call the move off, and move the service again")

    def replace(self, server: Server, *, keeps_wal: bool) -> None:
        refuse("second copies of a source: call the move off, and move the service again")

    def discard_copy(self, service_id: str) -> None:
        """Have no second copy."""

    def observe(self, server: Server) -> Following | None:
        try:
            self.place.check_runs(server)
            found = lag.observe(self.place.paths(server), server.required_upstream, self._messages(server))
        except Unavailable:
            return None
        problem = None if found.problem is None else found.problem.replace(COPIED_AGAIN, _MOVE_AGAIN)
        return msgspec.structs.replace(found, problem=problem, needs_copy=False, has_diverged=False)

    def _messages(self, server: Server) -> Iterator[str]:
        """Yield what recovery has logged last, which is read only when the first of it is asked for."""
        logged = logs.last_messages(self.place, server, OF_RECOVERY)
        yield from self._logged.of(server.service_id, _LOG_SECONDS, lambda: list(logged))

    def await_end(self, server: Server, lsn: str | None, *, drain: bool, takes_place: bool = False) -> str | None:
        self.place.check_runs(server)
        try:
            return source_end.left(
                self.place.paths(server),
                server.required_upstream,
                lsn,
                drain=drain,
                takes_place=takes_place,
                ends_with_shutdown=lambda replayed: self._ends_with_shutdown(server, replayed),
                watch=self._watch,
            )
        except Unseen:
            raise
        except Unavailable:  # of a server that answers, if it was restarted for a promotion that failed
            self.place.run_sql(server.service_id, "SELECT true")
            self._let_in(server.service_id)
            raise

    def promote(self, server: Server, timeout_seconds: float, *, neutralize: bool = False) -> str | None:
        """Let the Cluster follow nothing more, closed to clients; the operator ends recovery.

        It restarts the server only afterwards, so with `neutralize` that is restarted without workers before.
        """
        self.place.check_runs(server)
        own = replace(server, upstream=None)
        is_standby, has_workers = (one == "t" for one in self.place.run_sql(server.service_id, _STATE).split("|"))
        if neutralize and has_workers:
            return self._hold_workers(server if is_standby else own, timeout_seconds)
        if is_standby:
            self.place.apply(own, Phase.CLOSED, first=neutralize)
        deadline = time.monotonic() + timeout_seconds
        while not self._is_promoted(server):
            if time.monotonic() > deadline:
                return source_end.ending(self._replayed(server.service_id))
            time.sleep(_LOOK_SECONDS)
        return None

    def take_over(self, server: Server, *, neutralize: bool, takes_place: bool = False) -> dict[str, Any]:
        self.place.check_runs(server)
        return securing.secure_copy(self.place, server, neutralize=neutralize, takes_place=takes_place)

    def start_workers(self, server: Server) -> None:
        securing.let_jobs_run(self.place, server)

    def discard(self, service_id: str) -> str | None:
        self.forget(service_id)
        return None

    def forget(self, service_id: str) -> None:
        self.place.api.delete(SecretObject, names.source_name(service_id))

    def _traits(self, server: Server) -> Traits:
        secret = self.place.api.get(SecretObject, names.source_name(server.service_id))
        if secret is None:
            raise Failed("SOURCE_FORGOTTEN", f"The password of the source of service {server.service_id} is gone")
        return noted_traits(secret.metadata.annotations)

    def _hold_workers(self, server: Server, timeout_seconds: float) -> str:
        """Let the operator restart the server without workers, and watch that for so long."""
        if not self.place.has_first_settings(server.service_id):
            self.place.apply(server, Phase.CLOSED, first=True)
        tries = int(timeout_seconds / _LOOK_SECONDS)
        self.place.run_sql_until_true(server.service_id, _HAS_NO_WORKERS, tries)
        return "its server is restarted without workers of its source"

    def _is_promoted(self, server: Server) -> bool:
        """Tell whether recovery has ended, and the platform is let in."""
        service_id = server.service_id
        try:
            if self.place.run_sql(service_id, _IS_PROMOTED) != "t":
                return False
            with self.place.connect(server):
                return True
        except Unavailable:
            self._let_in(service_id)
            return False

    def _let_in(self, service_id: str) -> None:
        """Change the Cluster: after a restart the operator writes the rules that let the platform in only then."""
        changed = {"metadata": {"annotations": {names.CHANGED_ANNOTATION: f"{time.time_ns()}"}}}
        self.place.api.patch(Cluster, names.cluster_name(service_id), changed)

    def _replayed(self, service_id: str) -> str | None:
        """Return until where a server has replayed; None while it does not serve."""
        try:
            return self.place.run_sql(service_id, _REPLAYED)
        except Unavailable:
            return None

    def _ends_with_shutdown(self, server: Server, replayed: str) -> bool:
        last = segment_before(0, replayed)
        with self.place.connect(server) as connection:
            timeline = value(connection, _TIMELINE, f"%{last.name[8:]}")
        words = last_arguments(_WAL, int(timeline or "0", 16), replayed)
        command = ["sh", "-c", _PRINT, "print", str(server.pg_major), *words]
        printed = self.place.api.run(self.place.primary_of(server.service_id), command)
        return shows_shutdown(printed, replayed)

    def _machine(self) -> str:
        """Return the architecture of the nodes, by that of the first one; where nodes cannot be read, of this host."""
        try:
            nodes = self.place.api.find_global(Node)
        except Failed:
            nodes = []
        known = [one.status.architecture for one in nodes]
        return _MACHINES.get(known[0], known[0]) if known else platform.machine()


def _with_operator(facts: UpstreamFacts, source: SourceAddress, password: Secret) -> UpstreamFacts:
    """Return the facts about a source, of which the operator's role is one. Raises Invalid where that is missing."""
    with connected(source, password) as (connection, _):
        found = connection.execute(_OPERATOR, (OPERATOR_ROLE,)).fetchone()
    if found is None:
        raise Invalid(
            "SOURCE_TOO_OLD",
            f"{source} is a service of a Ramet that moves services to machines only",
            "Upgrade that Ramet, then move the service again.",
        )
    return facts if found[0] else replace(facts, reserved_roles=(*facts.reserved_roles, OPERATOR_ROLE))
