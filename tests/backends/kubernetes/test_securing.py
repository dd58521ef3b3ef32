"""A fork's credentials, set on a real server through the tunnel."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.tunnel import Tunnels
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.kubernetes.api_server import FakeCluster, in_cluster
from tests.backends.local.hosts import make_servers, new_server


@contextmanager
def server_in_pod() -> Iterator[tuple[FakeCluster, KubernetesBackend, Instances, Server]]:
    """Run a server on this host as the one in a pod; programs in the pod are run here."""
    with make_servers() as instances, in_cluster() as (found, place):
        server = new_server(instances)
        instances.make_directories(server)
        instances.initialize(server)
        instances.start(server)
        eventually(lambda: instances.await_ready(server, 0.5).ready)
        instances.secure(server, is_new=True, neutralize=False)
        socket = instances.paths(server.service_id).sockets / f".s.PGSQL.{server.port}"
        place.__dict__["tunnels"] = Tunnels(place.api, place.primary_of, str(socket))
        backend = KubernetesBackend(place)
        backend.servers.initialize(server)
        yield found, backend, instances, server


@pytest.fixture(scope="module")
def pod() -> Iterator[tuple[FakeCluster, KubernetesBackend, Instances, Server]]:
    with server_in_pod() as found:
        yield found


def test_a_fork_gets_new_passwords_and_acts_on_nothing_outside(
    pod: tuple[FakeCluster, KubernetesBackend, Instances, Server],
) -> None:
    _, backend, instances, server = pod
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute("CREATE ROLE analyst LOGIN PASSWORD 'known'")
        connection.execute("SELECT pg_create_physical_replication_slot('of_the_parent', true)")
    password = new_password()
    report = backend.servers.secure(replace(server, verifier=scram_verifier(password)), is_new=False, neutralize=True)
    assert report["roles_rotated"] == 2
    assert backend.servers.has_password(server, password)
    with connections.connect(instances.paths(server.service_id)) as connection:
        assert connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall() == []


def test_a_running_server_is_asked_where_its_wal_is(
    pod: tuple[FakeCluster, KubernetesBackend, Instances, Server],
) -> None:
    _, backend, _, server = pod
    facts = backend.restore.take_snapshot(server, "snapshot01", paused=False)
    assert facts is not None
    assert facts.size_bytes > 1_000_000
    assert (facts.timeline, facts.next_xid > 0) == (1, True)


def test_another_password_is_set(pod: tuple[FakeCluster, KubernetesBackend, Instances, Server]) -> None:
    _, backend, _, server = pod
    password = new_password()
    backend.servers.set_password(server, scram_verifier(password))
    assert backend.servers.has_password(server, password)
    assert not backend.servers.has_password(server, new_password())
