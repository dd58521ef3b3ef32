"""pg_upgrade on the data of a server of this host."""

from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.local.sql import connections
from tests.backends.local.forks import make_backend
from tests.backends.local.hosts import boot, new_server, restart
from tests.sources import MAJORS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_with_the_progress_of_many_replication_origins_is_upgraded() -> None:
    """A promoted standby may have that of more than servers usually allow."""
    with make_backend("copy") as backend:
        server = new_server(backend.instances, pg_major=min(MAJORS))
        boot(backend.instances, server)
        for first, last in ((1, 5), (6, 11)):
            with connections.connect(backend.instances.paths(server.service_id)) as connection:
                numbers = f"generate_series({first}, {last}) n"
                connection.execute(f"SELECT pg_replication_origin_create('o' || n) FROM {numbers}".encode())
                connection.execute(f"SELECT pg_replication_origin_advance('o' || n, '0/1') FROM {numbers}".encode())
            backend.instances.stop(server, 30)
            restart(backend.instances, server)
        backend.upgrades.prepare(server)
        backend.instances.stop(server, 30)
        upgraded = replace(server, pg_major=max(MAJORS))
        eventually(lambda: backend.upgrades.upgrade(upgraded, server.pg_major, 0.5).facts is not None, "the upgrade")
        backend.servers.destroy(server.service_id)
