"""pg_upgrade on the data of a server of this host."""

import signal
import subprocess
from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.local.sql import connections, withheld_roles
from ramet.backends.local.upgrades import cluster
from ramet.backends.local.upgrades.cluster import Cluster
from ramet.errors import Unavailable
from tests.backends.local.forks import make_backend
from tests.backends.local.hosts import boot, new_server, restart
from tests.sources import MAJORS

# Of pg_write_all_data, whose row PostgreSQL 15 does not have any more.
_OF_A_WITHHELD_ROLE = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT 6182, 'pg_write_all_data', false, true, false, false, false, false, false, -1
WHERE NOT EXISTS (SELECT FROM pg_authid WHERE oid = 6182);
CREATE TABLE public.granted (n int);
GRANT INSERT ON public.granted TO pg_write_all_data;
ALTER DEFAULT PRIVILEGES GRANT UPDATE ON TABLES TO pg_write_all_data;
CREATE POLICY shared ON public.granted TO pg_write_all_data USING (true);
CREATE TABLE public.owned (n int);
ALTER TABLE public.owned OWNER TO pg_write_all_data
"""


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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_whose_objects_refer_to_a_withheld_role_is_upgraded() -> None:
    with make_backend("copy") as backend:
        server = new_server(backend.instances, pg_major=min(MAJORS))
        paths = backend.instances.paths(server.service_id)
        boot(backend.instances, server)
        with connections.connect(paths) as connection:
            for statement in _OF_A_WITHHELD_ROLE.split(";\n"):
                connection.execute(statement.encode())
            withheld_roles.withhold(connection)
        backend.upgrades.prepare(server)
        backend.instances.stop(server, 30)
        upgraded = replace(server, pg_major=max(MAJORS))
        eventually(lambda: backend.upgrades.upgrade(upgraded, server.pg_major, 0.5).facts is not None, "the upgrade")
        restart(backend.instances, upgraded)
        with connections.connect(paths) as connection:
            tables = "SELECT relowner::regrole::text, relacl::text FROM pg_class WHERE relname IN ('granted', 'owned')"
            found = connection.execute(f"{tables} ORDER BY relname".encode()).fetchall()
        assert [owner for owner, _ in found] == ["ramet", "pg_write_all_data"]
        assert "pg_write_all_data=a/ramet" in found[0][1]
        backend.servers.destroy(server.service_id)


def test_an_upgrade_whose_initdb_was_killed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = subprocess.CompletedProcess([], -signal.SIGKILL, "", "")
    with make_backend("copy") as backend:
        server, of = new_server(backend.instances, pg_major=min(MAJORS)), backend.instances.installations.of
        boot(backend.instances, server)
        backend.instances.stop(server, 30)
        made = Cluster(backend.instances, backend.upgrades.pool.driver, server, of(min(MAJORS)), of(max(MAJORS)))
        monkeypatch.setattr(cluster, "complete", lambda *_, **__: killed)
        with pytest.raises(Unavailable, match="initdb was killed by signal 9"):
            made.upgrade()
        backend.servers.destroy(server.service_id)
