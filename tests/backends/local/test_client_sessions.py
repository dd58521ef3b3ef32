"""Sessions of clients on real servers are told from those of the platform, of replicas and of idle poolers."""

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server, Sessions
from ramet.backends.local.backend import LocalBackend
from ramet.model.passwords import Secret, new_password
from ramet.model.size import Size
from tests.backends.local.forks import destroy_all, run
from tests.backends.local.hosts import connect, new_server


def serving(backend: LocalBackend, password: Secret) -> Server:
    server = new_server(backend.instances, password, pooler_port=free_port())
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    return server


def seen(backend: LocalBackend, server: Server) -> Sessions:
    found = backend.host.sessions(server)
    assert found is not None
    return found


def settled(backend: LocalBackend, server: Server) -> Sessions:
    """Return what is counted once the last session has reported itself, and nobody is connected."""
    before = seen(backend, server)

    def is_settled() -> bool:
        nonlocal before
        last, before = before, seen(backend, server)
        return last == before and before.count == 0

    eventually(is_settled)
    return before


def test_clients_count_on_the_server_its_pooler_and_its_replica_and_nothing_else_does(backend: LocalBackend) -> None:
    password = new_password()
    server = serving(backend, password)
    replica = new_server(
        backend.instances, size=Size(500, 1), primary=Primary(server.service_id, server.port), pooler_port=None
    )
    assert backend.replicas.create(replica)
    run(backend, replica)
    backend.servers.open(replica)  # from here on a walsender is connected to the server
    idle = settled(backend, server)
    for _ in range(3):
        backend.host.measure(server)
        backend.servers.inspect(server)
        assert backend.restore.take_snapshot(server, "a123456789", paused=False)
        backend.restore.delete_snapshot(server.service_id, "a123456789")
    assert seen(backend, server) == idle
    with connect(server, password):
        assert seen(backend, server).count == 1
    with connect(server, password, port=str(server.pooler_port)) as client:
        assert seen(backend, server).count == 1  # a session-pooled one: one client, though a server session is open
        client.execute("SELECT 1")
    after = settled(backend, server)  # the pooler keeps its connection to the server, and nobody uses it
    assert after.mark != idle.mark
    with connect(server, password, port=str(server.pooler_port)) as client:
        client.execute("SELECT 1")
    eventually(lambda: seen(backend, server).mark != after.mark)  # a short visit over the connection that was kept
    with connect(replica, password):
        assert (seen(backend, replica).count, seen(backend, server).count) == (1, 0)
    backend.servers.stop(replica)
    backend.servers.stop(server)
    assert backend.host.sessions(server) is None
    destroy_all(backend)
