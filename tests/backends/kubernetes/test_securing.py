"""A fork's credentials, set on a real server through the tunnel."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.kubernetes import departures, names, securing
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.tunnel import Tunnels
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, mover, operator_roles
from ramet.model.passwords import new_password, scram_verifier
from ramet.model.service_type import ServiceType
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED, report
from tests.backends.local.hosts import make_servers, new_server

CONTROL = """
Database system identifier:           7712037298637759942
Database cluster state:               shut down
Latest checkpoint location:           0/5000028
Latest checkpoint's REDO location:    0/5000028
Latest checkpoint's REDO WAL file:    000000010000000000000005
Latest checkpoint's TimeLineID:       1
Latest checkpoint's NextXID:          0:750
Time of latest checkpoint:            Wed Nov 25 09:23:48 2026
"""


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
        connection.execute("CREATE ROLE streaming_replica LOGIN REPLICATION")
        connection.execute("SELECT pg_create_physical_replication_slot('of_the_parent', true)")
    password = new_password()
    report = backend.servers.secure(replace(server, verifier=scram_verifier(password)), is_new=False, neutralize=True)
    assert report["roles_rotated"] == 3
    assert backend.servers.has_password(server, password)
    with connections.connect(instances.paths(server.service_id)) as connection:
        assert connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall() == []
    backend.replication.permit(server)
    with connections.connect(instances.paths(server.service_id)) as connection:
        query = "SELECT rolname FROM pg_roles WHERE rolreplication AND NOT rolsuper"
        assert connection.execute(query).fetchall() == [("streaming_replica",)]  # standbys of the fork stream as that


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


def test_a_copy_may_stream_until_it_is_refused(
    pod: tuple[FakeCluster, KubernetesBackend, Instances, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend, instances, server = pod
    paths, name = instances.paths(server.service_id), f"ramet-{server.service_id}"
    monkeypatch.setattr(departures, "_ADMITS", "SELECT %s = 'pg_ramet_mover'")  # the operator would write the rule
    for _ in range(2):
        assert backend.replication.admit_copy(server, scram_verifier(new_password())) == "pg_ramet_mover"
    rule = "hostssl replication pg_ramet_mover all scram-sha-256"
    rules = found.objects[("clusters", name)]["spec"]["postgresql"]["pg_hba"]
    assert rules.index(rule) < rules.index("host replication all all reject")
    assert movers(paths) == [("pg_ramet_mover", False), ("postgres", True)]
    backend.replication.hasten_copy(server)
    for _ in range(2):
        backend.replication.refuse_copy(server)
    assert rule not in found.objects[("clusters", name)]["spec"]["postgresql"]["pg_hba"]
    assert movers(paths) == []


def test_the_role_of_a_copy_goes_when_a_server_that_has_moved_is_started_again(
    pod: tuple[FakeCluster, KubernetesBackend, Instances, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend, instances, server = pod
    monkeypatch.setattr(departures, "_ADMITS", "SELECT %s = 'pg_ramet_mover'")
    backend.replication.admit_copy(server, scram_verifier(new_password()))
    backend.servers.stop(server)
    found.answer = lambda pod, command, stdin: (CONTROL, "", 0)
    assert backend.replication.end_lsn(server) == "0/5000028"
    assert not [name for kind, name in found.objects if kind == "pods" and "-volume-" in name]
    backend.replication.refuse_copy(server)
    assert movers(instances.paths(server.service_id)) != []
    found.answer = lambda pod, command, stdin: (report(), "", 0)
    backend.servers.start(server, clients=True)

    def is_clear() -> bool:
        backend.servers.maintain(server, 1.0, datetime.now(UTC))
        return movers(instances.paths(server.service_id)) == []

    eventually(is_clear, "the end of the role")


def test_a_moved_service_has_what_the_operator_needs(
    pod: tuple[FakeCluster, KubernetesBackend, Instances, Server],
) -> None:
    found, backend, instances, server = pod
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as connection:
        mover.let_in(connection, scram_verifier(new_password()))
        before = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'tsdbadmin'").fetchone()
        found.answer = lambda pod, command, stdin: ("", "", 0)
        for _ in range(2):
            assert backend.followers.take_over(server, neutralize=False, takes_place=True) == {}
        roles = connection.execute("SELECT rolname, rolsuper, oid >= 16384 FROM pg_authid WHERE rolname = 'postgres'")
        assert roles.fetchall() == [("postgres", True, True)]
        after = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'tsdbadmin'").fetchone()
        assert after == before
        password = new_password()
        own = replace(server, verifier=scram_verifier(password))
        assert backend.followers.take_over(own, neutralize=False)["roles_rotated"] == 1
        assert backend.servers.has_password(server, password)
        connection.execute("CREATE TABLE public.of_the_operator (n int)")
        connection.execute("ALTER TABLE public.of_the_operator OWNER TO postgres")
        for _ in range(2):
            operator_roles.remove(paths)
        owner = connection.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'of_the_operator'").fetchone()
        assert owner == ("ramet",)
    assert movers(paths) == []


def movers(paths: ServicePaths) -> list[tuple[str, bool]]:
    """Return the roles that exist only while a service moves, and whether they are superusers."""
    with connections.connect(paths) as connection:
        query = "SELECT rolname, rolsuper FROM pg_authid WHERE rolname IN ('pg_ramet_mover', 'postgres') ORDER BY 1"
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("service_type", [ServiceType.TIMESERIESDB, ServiceType.POSTGRES])
def test_jobs_run_in_a_fork_from_a_restart_between_its_securing_and_its_clients(
    service_type: ServiceType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(securing, "secure_fork", lambda place, server, neutralize: {"jobs": []})
    parent = replace(SHARED, service_type=service_type)
    fork = replace(parent, service_id="forkfork12")
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(parent)
        backend.restore.capture(fork, Source(parent))
        said, rules = ["f\n", "psql: error: connection refused\n", "t\n", "t\n"], list[int]()

        def answer(pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
            if "max_logical_replication_workers" not in str(command):
                return "", "fe_sendauth: no password supplied", 2
            rules.append(len(found.objects[("clusters", "ramet-forkfork12")]["spec"]["postgresql"]["pg_hba"]))
            return said.pop(0), "", 0

        found.answer = answer
        # The pod is seen when a watch says that it runs.
        eventually(lambda: (pod := place.primary_pod(fork.service_id)) is not None and pod.runs, "the pod")
        assert backend.servers.secure(fork, is_new=False, neutralize=True) == {"jobs": []}
        assert len(said) == 4, "what was neutralized is recorded before the server is restarted"
        for _ in range(2):
            backend.servers.open(fork)
        cluster = found.objects[("clusters", "ramet-forkfork12")]
        has_jobs = service_type is ServiceType.TIMESERIESDB
        settings = cluster["spec"]["postgresql"]
        assert ("max_logical_replication_workers" in settings["parameters"]) != has_jobs
        assert "timescaledb.max_background_workers" not in settings["parameters"]
        assert (names.FIRST_ANNOTATION in cluster["metadata"]["annotations"]) != has_jobs
        assert rules == ([1, 1, 1, 6] if has_jobs else []), "clients come after the restart"
