"""Sessions of tenants end when a server is closed, those included that are half in."""

import select
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg import pq

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.server import instances as module
from ramet.backends.local.server import sessions
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, new_password
from ramet.model.wal_level import WalLevel
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


@pytest.fixture
def publisher(instances: Instances) -> Iterator[Server]:
    """A server with a logical slot, and a row that its consumers have not received."""
    made = new_server(instances, PASSWORD, wal_level=WalLevel.LOGICAL)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    instances.open(made)
    with connect(made, PASSWORD) as client:
        client.execute("SELECT pg_create_logical_replication_slot('changes', 'test_decoding')")
        client.execute("CREATE TABLE kept AS SELECT 1 AS n")
    yield made
    instances.remove(made.service_id, 10)


@contextmanager
def consumer(server: Server, *, confirms: bool) -> Iterator[Future[str]]:
    """Consume the slot in a thread, which answers each message, with or without confirming it; yield how it ends."""
    with closing(connect(server, PASSWORD, replication="database")) as connection, ThreadPoolExecutor(1) as thread:
        stream = connection.pgconn
        assert stream.exec_(b"START_REPLICATION SLOT changes LOGICAL 0/0").status == pq.ExecStatus.COPY_BOTH
        yield thread.submit(_consume, stream, confirms=confirms)


def _consume(stream: pq.abc.PGconn, *, confirms: bool) -> str:
    while True:
        size, message = stream.get_copy_data(1)
        if size == 0:  # to wait for more in libpq would keep other threads waiting, too
            select.select([stream.socket], [], [])
            stream.consume_input()
            continue
        if size < 0:
            result = stream.get_result()
            return "" if result is None else result.error_message.decode()
        (last,) = struct.unpack_from("!Q", message, 1 if message[0] == ord("k") else 9)
        confirmed = last if confirms else 1
        stream.put_copy_data(struct.pack("!cQQQQ?", b"r", last, confirmed, confirmed, 0, False))
        stream.flush()


def test_a_consumer_that_answers_and_confirms_nothing_does_not_keep_a_server_up(
    instances: Instances, publisher: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with consumer(publisher, confirms=False) as ended:
        with monkeypatch.context() as patched:
            patched.setattr(sessions, "_CONFIRM_SECONDS", 600.0)
            patched.setattr(module, "_STOP_SECONDS", 1.0)
            with pytest.raises(Unavailable, match=r"is still stopping: walsender \S+, work \d+"):
                instances.await_end(publisher)
        monkeypatch.setattr(sessions, "_CONFIRM_SECONDS", 0.0)
        instances.await_end(publisher)
        assert "terminating connection due to administrator command" in ended.result(10)


def test_a_consumer_that_confirms_all_ends_without_an_error(instances: Instances, publisher: Server) -> None:
    with consumer(publisher, confirms=True) as ended:
        instances.await_end(publisher)
        assert ended.result(10) == ""
