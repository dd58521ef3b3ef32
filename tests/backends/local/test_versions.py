"""What every PostgreSQL of this host does alike, newest and oldest, with TLS and without."""

from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.local.server import configuration, sessions
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.model.passwords import new_password, scram_verifier
from tests import clusters
from tests.backends.local.hosts import boot, connect, new_server, restart
from tests.backends.local.test_tenant_bounds import WITHHELD
from tests.servers import installations

MAJORS = sorted(installations().by_major)

ATTEMPTS = (
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "SELECT pg_read_file('PG_VERSION')",
    "ALTER SYSTEM SET work_mem = '8MB'",
    "GRANT ramet TO tsdbadmin",
    "ALTER ROLE ramet PASSWORD 'x'",
    "CREATE ROLE escape SUPERUSER",
    "CREATE ROLE escape REPLICATION",
    "DO $$BEGIN LOCK TABLE pg_catalog.pg_authid; END$$",
)


@pytest.mark.parametrize("major", MAJORS)
def test_a_service_lives_through_its_changes(instances: Instances, major: int) -> None:
    first, second = new_password(), new_password()
    server = new_server(instances, first, pg_major=major)
    paths = instances.paths(server.service_id)
    tls = "require" if instances.installations.of(major).has_tls else "disable"
    with clusters.own():
        boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    with connect(server, first, sslmode=tls) as client:
        client.execute("CREATE TABLE kept AS SELECT 7 AS n")
        assert client.info.server_version // 10000 == major
        instances.close(server)
        assert sessions.end_all(paths, 10)
    eventually(lambda: instances.stop(server, 10))
    instances.start(server, overrides=configuration.first_boot())
    eventually(lambda: instances.await_ready(server, 0.5).ready)
    changed = replace(server, verifier=scram_verifier(second))
    assert instances.secure(changed, is_new=False, neutralize=True)["roles_rotated"] == 1
    instances.open(changed)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(changed, first, sslmode=tls)
    with connect(changed, second, sslmode=tls) as client:
        assert client.execute("SELECT n FROM kept").fetchone() == (7,)
    restart(instances, changed)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize("major", MAJORS)
def test_the_configuration_has_no_error_and_needs_no_restart(instances: Instances, major: int) -> None:
    server = new_server(instances, pg_major=major)
    boot(instances, server)
    instances.open(server)
    with connections.connect(instances.paths(server.service_id)) as connection:
        wrong = connection.execute("SELECT sourcefile, name, error FROM pg_file_settings WHERE error IS NOT NULL")
        assert wrong.fetchall() == []
        assert connection.execute("SELECT error FROM pg_hba_file_rules WHERE error IS NOT NULL").fetchall() == []
        assert connection.execute("SELECT name FROM pg_settings WHERE pending_restart").fetchall() == []
        assert connection.execute("SHOW data_checksums").fetchone() == ("on",)
        assert connection.execute("SHOW data_directory_mode").fetchone() == ("0700",)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize("major", MAJORS)
def test_the_admin_never_reaches_the_host(instances: Instances, major: int) -> None:
    password = new_password()
    server = new_server(instances, password, pg_major=major)
    tls = "require" if instances.installations.of(major).has_tls else "disable"
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    attempts = [*ATTEMPTS, *(f"{verb} {role}" for role in WITHHELD for verb in ("SET ROLE", "CREATE ROLE"))]
    attempts += [f"GRANT {role} TO {member}" for role in WITHHELD for member in ("tsdbadmin", "helper")]
    with connect(server, password, sslmode=tls) as client:
        client.execute("CREATE ROLE helper CREATEROLE")
        client.execute("GRANT pg_monitor, pg_signal_backend, pg_checkpoint TO helper")
        for attempt in attempts:
            with pytest.raises(psycopg.Error):
                client.execute(attempt.encode())
    instances.remove(server.service_id, 10)
