"""Where the contract of a backend is tried: the backend itself, and clients of its services.

Another backend needs its own `Ground`, and its row in `GROUNDS`.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Protocol

import psycopg

from harness.kubernetes.layout import NODE_ADDRESS, S3_BUCKET, S3_ENDPOINT, S3_KEY, S3_SECRET, kubeconfig
from harness.kubernetes.node_ports import node_ports
from harness.kubernetes.objects import namespace
from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import Primary, Server, SnapshotFacts, Source
from ramet.backends.kubernetes.backend import open_kubernetes
from ramet.backends.kubernetes.site import Exposure, Site
from ramet.backends.kubernetes.store_access import StoreAccess
from ramet.backends.local.volumes.image import why_impossible
from ramet.backends.memory.backend import MemoryBackend
from ramet.errors import Unseen
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from tests.backends.contract.elsewhere import Elsewhere, InMemory, real_server
from tests.backends.local.forks import make_backend
from tests.backends.local.hosts import connect


class Client(Protocol):
    """What clients of services do."""

    def commit(self, server: Server, value: str) -> datetime:
        """Commit a row; return a time at or after that. Raises where the server takes no writes."""

    def values(self, server: Server) -> list[str]:
        """Return the values of all rows in order. Raises where the server takes no clients."""


class Ground:
    """A backend with its clients. All that it makes is destroyed by `clear`."""

    host = "localhost"
    new_port = staticmethod(free_port)

    def __init__(
        self,
        backend: Backend,
        client: Client,
        passwords: dict[str, Secret],
        elsewhere: Callable[[], AbstractContextManager[Elsewhere]],
    ) -> None:
        self.backend = backend
        self.client = client
        self.passwords = passwords
        self.open_elsewhere = elsewhere

    def new_server(self, primary: Server | None = None, *, has_pooler: bool = False) -> Server:
        """Return a server that nothing is made of yet; a replica of `primary`, if there is one."""
        service_id, password = new_id(), new_password() if primary is None else self.passwords[primary.service_id]
        self.passwords[service_id] = password
        return Server(
            service_id=service_id,
            service_type=ServiceType.POSTGRES,
            environment=Environment.DEV,
            size=Size(),
            host=self.host,
            port=self.new_port(),
            pg_major=self.backend.host.default_pg_major(ServiceType.POSTGRES),
            verifier=scram_verifier(password),
            pooler_port=self.new_port() if has_pooler else None,
            primary=None if primary is None else Primary(primary.service_id, primary.port, service_id, self.new_port()),
        )

    def create(self, *values: str, has_pooler: bool = False) -> Server:
        """Make a service that serves clients and has some rows."""
        server = self.new_server(has_pooler=has_pooler)
        self.backend.servers.initialize(server)
        self.boot(server)
        self.backend.servers.secure(server, is_new=True, neutralize=False)
        self.backend.servers.open(server)
        for value in values:
            self.client.commit(server, value)
        return server

    def boot(self, server: Server, *, clients: bool = False, first: bool = False) -> None:
        """Start a server, and wait until it is ready."""
        self.backend.servers.start(server, clients=clients, first=first)
        eventually(lambda: self.backend.servers.await_ready(server, 0.5).ready)

    def snapshot(self, server: Server, *, paused: bool = False) -> tuple[str, SnapshotFacts]:
        """Take a snapshot; return its id and what it holds."""
        snapshot_id = new_id()
        facts = self.backend.restore.take_snapshot(server, snapshot_id, paused)
        assert facts is not None
        return snapshot_id, facts

    def recorded(self, server: Server, snapshot_id: str, facts: SnapshotFacts) -> Snapshot:
        """Return a snapshot as the control plane records it."""
        return Snapshot(id=snapshot_id, service_id=server.service_id, kind=SnapshotKind.SCHEDULED, **asdict(facts))

    def fork(self, source: Source) -> Server:
        """Fork a service until the fork serves clients."""
        child = replace(self.new_server(), pg_major=source.parent.pg_major)
        self.make_fork(child, source, neutralize=True)
        return child

    def make_fork(self, child: Server, source: Source, *, neutralize: bool) -> None:
        """Make a server a fork that serves clients."""
        if source.base_backup_id is not None:
            eventually(lambda: self.backend.archive.fetch(child, source, 0.5) is None)
        captured = self.backend.restore.capture(child, source)
        assert captured is not None
        eventually(lambda: self.backend.restore.recover(child, captured, 0.5).facts is not None)
        self.boot(child, first=True)
        self.backend.servers.secure(child, is_new=False, neutralize=neutralize)
        self.backend.servers.open(child)

    def clear(self) -> None:
        """Destroy all servers; replicas first."""
        for service_id in reversed(self.passwords):
            self.backend.servers.destroy(service_id)
        self.passwords.clear()


class MemoryClient:
    """Clients of services in memory."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def commit(self, server: Server, value: str) -> datetime:
        """Commit a row."""
        return self._backend.commit(server.service_id, value).committed_at

    def values(self, server: Server) -> list[str]:
        """Return the values of all rows."""
        return self._backend.values(server.service_id)


class PostgresClient:
    """Clients that log in with the password of the service."""

    def __init__(self, passwords: dict[str, Secret]) -> None:
        self._passwords = passwords

    def commit(self, server: Server, value: str) -> datetime:
        """Commit a row."""
        with self._connect(server) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS ledger (n serial, value text)")
            connection.execute("INSERT INTO ledger (value) VALUES (%s)", (value,))
            connection.commit()
        return datetime.now(UTC)

    def values(self, server: Server) -> list[str]:
        """Return the values of all rows."""
        with self._connect(server) as connection:
            return [str(row[0]) for row in connection.execute("SELECT value FROM ledger ORDER BY n").fetchall()]

    def _connect(self, server: Server) -> psycopg.Connection[tuple[object, ...]]:
        return connect(server, self._passwords[server.service_id], sslmode="prefer", host=server.host)


@contextmanager
def in_memory() -> Iterator[Ground]:
    """Give the backend in memory."""
    backend = MemoryBackend(starts_after=1)
    backend.archive.location = "memory://"
    yield Ground(backend, MemoryClient(backend), {}, lambda: nullcontext(InMemory(backend)))


@contextmanager
def on_this_host() -> Iterator[Ground]:
    """Give the backend of this host, over the storage that a host usually has."""
    passwords: dict[str, Secret] = {}
    driver = "copy" if why_impossible("xfs") else "reflink"
    with TemporaryDirectory() as directory, make_backend(driver, f"file://{directory}") as backend:
        major = backend.host.default_pg_major(ServiceType.POSTGRES)
        yield Ground(backend, PostgresClient(passwords), passwords, lambda: real_server(major))


class InCluster(Ground):
    """A namespace of the cluster of script/kubernetes; its services are reached by ports of the node."""

    host = NODE_ADDRESS
    new_port = staticmethod(itertools.cycle(node_ports()).__next__)
    _empty: Server | None = None

    def create(self, *values: str, has_pooler: bool = False) -> Server:
        """Make a service as a fork of an empty one, which takes a third of the time."""
        if self._empty is None:
            self._empty = super().create()
            self.passwords.pop(self._empty.service_id)  # it goes with the namespace
        server = self.new_server(has_pooler=has_pooler)
        self.make_fork(server, Source(self._empty), neutralize=False)
        for value in values:
            self.client.commit(server, value)
        return server

    def make_fork(self, child: Server, source: Source, *, neutralize: bool) -> None:
        """Make a fork, if need be several times, as operations do: tests that run at the same time end the operator."""

        def is_made() -> bool:
            try:
                super(InCluster, self).make_fork(child, source, neutralize=neutralize)
            except Unseen:
                return False
            return True

        eventually(is_made, f"the fork {child.service_id}", 1.0)


@contextmanager
def on_kubernetes() -> Iterator[Ground]:
    """Give the backend for Kubernetes, with an archive."""
    passwords: dict[str, Secret] = {}
    with namespace() as name:
        site = Site(
            name,
            image="ramet.test/postgresql:{major}",
            majors=(15,),
            volume_gbs=1,
            pooler_image="ramet.test/pgbouncer:1.24",
            exposure=Exposure.NODEPORT,
            archive=StoreAccess(
                f"s3://{S3_BUCKET}/{name}", S3_ENDPOINT, "us-east-1", Secret(S3_KEY), Secret(S3_SECRET)
            ),
        )
        os.environ |= {"AWS_ENDPOINT_URL": S3_ENDPOINT, "AWS_ACCESS_KEY_ID": S3_KEY, "AWS_SECRET_ACCESS_KEY": S3_SECRET}
        with closing(open_kubernetes(site, kubeconfig(), lambda: b"")) as backend:
            yield InCluster(backend, PostgresClient(passwords), passwords, nothing_elsewhere)


def nothing_elsewhere() -> AbstractContextManager[Elsewhere]:
    """Raise AssertionError: nothing here follows a database elsewhere."""
    raise AssertionError("the backend for Kubernetes refuses sources")


GROUNDS: dict[str, Callable[[], AbstractContextManager[Ground]]] = {
    "memory": in_memory,
    "local": on_this_host,
    "kubernetes": on_kubernetes,
}
# What a backend refuses, by the tests, or modules of them, that are not run for it; test_refused.py holds it to that.
REFUSED = {
    "kubernetes": {
        "test_endpoints": "endpoints",
        # It follows services of another Ramet only: tests/kubernetes/test_moves.py.
        "test_followers": "followers.examine",
        "test_insight": "insight",
        "test_parameters": "parameters",
        "test_replacements": "replacements",
        "test_sources": "sources",
        "test_upgrades": "upgrades",
        "test_a_server_with_another_id_continues_the_archive_under_its_name": "upgrades",
        # A replica has no endpoint of its own: clients reach those of a set by its Service.
        "test_a_replica_shows_the_rows_of_its_primary_old_and_new": "replicas.endpoint",
        # The Service of a set serves as long as any of its servers does.
        "test_a_balancer_ends_with_the_replica_that_carries_it": "replicas.balancer_serves",
        # The services are the cluster's: they outlive Ramet.
        "test_all_servers_are_stopped_at_once": "host.stop_all",
    }
}
# What `tests/kubernetes` shows through `ramet up`: tried here only with RAMET_TEST_KUBERNETES=all.
SHOWN_ELSEWHERE = frozenset(
    {
        "test_a_fork_of_now_has_all_that_was_committed_and_goes_its_own_way",
        "test_a_fork_of_a_snapshot_has_what_was_committed_before_it",
        "test_a_fork_of_a_past_time_has_what_was_committed_until_then",
        "test_a_paused_parent_is_forked_and_stays_stopped",
        "test_a_fork_is_reported_on_with_and_without_its_parent",
        "test_statistics_and_data_of_a_fork_are_read_in_the_background",
        "test_a_prepared_snapshot_is_forked_like_any_other",
        "test_a_new_server_serves_its_clients_when_it_is_open",
        "test_a_stopped_server_keeps_its_rows_and_serves_again",
        "test_a_stopped_server_takes_its_size_from_its_next_start",
        "test_a_fork_from_the_archive_needs_nothing_of_its_parent",
        "test_a_pooler_runs_from_its_start_to_its_stop",
        "test_a_server_with_a_pooler_port_is_opened_and_stopped_with_its_pooler",
    }
)
