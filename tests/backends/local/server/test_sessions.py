"""Sessions of tenants end when a server is closed, those included that are half in."""

import socket
import struct
from collections.abc import Iterator

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.server import sessions
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server

PASSWORD = new_password()


@pytest.fixture
def server(instances: Instances) -> Iterator[Server]:
    made = new_server(instances, PASSWORD)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    instances.open(made)
    yield made
    instances.remove(made.service_id, 10)


def test_sessions_of_tenants_end_and_the_platforms_stay(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as ours, connect(server, PASSWORD) as theirs:
        theirs.execute("BEGIN")
        instances.close(server)
        assert sessions.end_all(paths, 10)
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            theirs.execute("SELECT 1")
        assert ours.execute("SELECT 1").fetchone() == (1,)


def test_a_client_that_is_authenticating_while_the_server_closes_is_rejected(
    instances: Instances, server: Server
) -> None:
    paths = instances.paths(server.service_id)
    pid = postgres.running(paths)
    assert pid is not None
    with socket.create_connection(("localhost", server.port)) as silent:
        silent.settimeout(10)
        silent.sendall(struct.pack("!II", 8, 80877103))
        assert silent.recv(1) == b"S"
        own = [title for child, title in children_of(pid) if title.startswith(str(paths.root)) or "-D" in title]
        assert own
        instances.close(server)
        assert sessions.end_all(paths, 10)
        assert silent.recv(1) == b""


def test_sessions_that_end_slowly_are_reported_to_the_caller(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    with connect(server, Secret(PASSWORD.reveal())):
        assert not sessions.end_all(paths, 0)
    eventually(lambda: sessions.end_all(paths, 1))
