"""One server from its files to its endpoint."""

from ramet.backends.local import probe, sql
from ramet.backends.local.servers import Servers
from tests.backends.local.hosts import boot, new_server, restart


def test_a_server_opens_to_clients_only_when_it_is_told_to(servers: Servers) -> None:
    server = new_server(servers)
    boot(servers, server)
    assert _answer(server.port) is probe.Answer.REFUSES
    servers.open(server)
    assert _answer(server.port) is probe.Answer.ASKS_PASSWORD
    servers.close(server)
    assert _answer(server.port) is probe.Answer.REFUSES


def test_a_stopped_server_starts_again_with_its_data(servers: Servers) -> None:
    server = new_server(servers)
    boot(servers, server)
    paths = servers.paths(server.service_id)
    with sql.connect(paths) as connection:
        connection.execute("CREATE TABLE public.kept AS SELECT 7 AS n")
    assert servers.stop(server, 20)
    assert servers.stop(server, 20)
    restart(servers, server)
    with sql.connect(paths) as connection:
        assert connection.execute("SELECT n FROM public.kept").fetchone() == (7,)


def _answer(port: int) -> probe.Answer:
    return probe.ask("localhost", port, "tsdbadmin", "tsdb", tls=True)
