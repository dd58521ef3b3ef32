"""Sessions of clients on real servers are told from those of the platform, of replicas and of idle poolers."""

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server, Sessions
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.sql import connections
from ramet.model.passwords import Secret, new_password
from ramet.model.size import Size
from tests.backends.local.forks import destroy_all, paths_of, run
from tests.backends.local.hosts import connect, new_server


def serving(backend: LocalBackend, password: Secret, *, pooler_port: int | None = None) -> Server:
    server = new_server(backend.instances, password, pooler_port=pooler_port)
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    return server


def seen(backend: LocalBackend, server: Server) -> Sessions:
    found = backend.poolers.sessions(server)
    assert found is not None
    return found


def test_neither_the_platform_nor_a_replica_is_a_client(backend: LocalBackend) -> None:
    password = new_password()
    server = serving(backend, password)
    primary = Primary(server.service_id, server.port)
    replica = new_server(backend.instances, size=Size(500, 1), primary=primary)
    assert backend.replicas.create(replica)
    run(backend, replica)
    backend.servers.open(replica)
    assert backend.servers.inspect(replica).follows  # so a walsender is connected to the server
    idle = seen(backend, server)
    for snapshot_id in ("a123456789", "b123456789"):
        backend.host.measure(server)
        assert backend.servers.inspect(server).serving
        assert backend.restore.take_snapshot(server, snapshot_id, paused=False)
    assert seen(backend, server) == Sessions(0, idle.mark)
    with connect(replica, password):
        assert (seen(backend, replica).count, seen(backend, server).count) == (1, 0)
    with connect(server, password):
        assert seen(backend, server).count == 1
    eventually(lambda: seen(backend, server).count == 0 and seen(backend, server).mark != idle.mark)
    backend.servers.stop(replica)
    backend.servers.stop(server)
    assert backend.poolers.sessions(server) is None
    destroy_all(backend)


def test_a_client_of_the_pooler_counts_once_and_what_the_pooler_keeps_does_not(backend: LocalBackend) -> None:
    password = new_password()
    server = serving(backend, password, pooler_port=free_port())
    idle = seen(backend, server)
    assert idle.count == 0
    with connect(server, password, port=str(server.pooler_port)) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert seen(backend, server).count == 1
    eventually(lambda: seen(backend, server).count == 0 and seen(backend, server).mark != idle.mark)
    with connections.connect(paths_of(backend, server)) as inside:
        kept = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'tsdbadmin'"
        assert connections.value(inside, kept) == 1  # the pooler has it, and no client
    backend.servers.stop(server)
    destroy_all(backend)
