"""The pooler of a service goes along with its server on the whole backend."""

import psycopg
import pytest

from harness.ports import free_port
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process.identity import processes_in
from ramet.errors import Invalid
from ramet.model.passwords import Secret, new_password
from tests.backends.local.forks import paths_of, run
from tests.backends.local.hosts import connect, new_server


def answers(server: Server, password: Secret) -> bool:
    try:
        with connect(server, password, port=str(server.pooler_port)) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_a_pooler_starts_stops_and_is_destroyed_with_its_server(backend: LocalBackend) -> None:
    password = new_password()
    server = new_server(backend.instances, password, pooler_port=free_port())
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    assert answers(server, password)
    backend.servers.stop(server)
    assert not backend.poolers.serves(server.service_id)
    run(backend, server)
    backend.servers.open(server)
    assert answers(server, password)
    home = paths_of(backend, server).root / "pooler"
    assert processes_in(home)
    backend.servers.destroy(server.service_id)
    assert not processes_in(home)
    assert backend.host.port_is_free(server.pooler_port or 0)


def test_a_service_serves_though_its_pooler_cannot(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_PGBOUNCER", "/nonexistent/pgbouncer")
    password = new_password()
    server = new_server(backend.instances, password, pooler_port=free_port())
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    with connect(server, password) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not backend.poolers.serves(server.service_id)


def test_a_service_without_database_tsdb_is_refused_a_pooler_by_name(backend: LocalBackend) -> None:
    password = new_password()
    server = new_server(backend.instances, password)
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    backend.poolers.check_database(server)
    with connect(server, password, dbname="postgres") as connection:
        connection.autocommit = True
        connection.execute("DROP DATABASE tsdb")
    with pytest.raises(Invalid, match=f"{server.service_id} has no database tsdb"):
        backend.poolers.check_database(server)
    with pytest.raises(Invalid, match=f"{server.service_id} has no database tsdb"):
        backend.poolers.start([server], free_port())
