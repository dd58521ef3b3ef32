"""What the platform logs in as beside its own sessions: no tenant can take it, alter it, or get its rights."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.roles import rotate
from ramet.backends.local.sql.service_roles import ensure_pooler_role, retire_earlier_roles
from ramet.model.passwords import Secret, new_password, scram_verifier, unusable_verifier
from ramet.model.wal_level import WalLevel
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

MAJORS = sorted(installations().by_major)
ATTEMPTS = (
    "DROP ROLE pg_ramet_pooler",
    "ALTER ROLE pg_ramet_pooler RENAME TO mine",
    "ALTER ROLE pg_ramet_pooler PASSWORD 'x'",
    "ALTER ROLE pg_ramet_pooler NOLOGIN",
    "ALTER ROLE pg_ramet_pooler SET role = 'tsdbadmin'",
    "ALTER ROLE tsdbadmin RENAME TO pg_ramet_replica",
    "CREATE ROLE pg_ramet_replica",
    "DROP OWNED BY pg_ramet_pooler",
)

LAST_MAJOR_THAT_GRANTS_ANYTHING = 15
TAKE_OVER = (
    "GRANT pg_ramet_pooler TO tsdbadmin",
    "SET ROLE pg_ramet_pooler",
    "ALTER ROLE CURRENT_USER SET local_preload_libraries = 'nonexistent'",
    "ALTER ROLE CURRENT_USER IN DATABASE tsdb SET search_path = 'mine'",
    "ALTER ROLE CURRENT_USER PASSWORD 'x'",
)


@pytest.fixture(scope="module", params=MAJORS)
def opened(instances: Instances, request: pytest.FixtureRequest) -> Iterator[tuple[Server, Secret]]:
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield server, password
    instances.remove(server.service_id, 10)


@pytest.fixture
def admin(instances: Instances, opened: tuple[Server, Secret]) -> Iterator[tuple[Server, Any]]:
    """A service of each version, and a session of its admin; the roles and schemas of a test go with it."""
    server, password = opened
    instances.set_password(server, scram_verifier(password))
    with connect(server, password, sslmode="prefer") as client:
        yield server, client
    with connections.connect(instances.paths(server.service_id), connections.DATABASE) as platform:
        platform.execute("DROP SCHEMA IF EXISTS theirs CASCADE")
        for name in ("ramet_replica", "ramet_pooler", "streams"):
            if platform.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None:
                connections.run(platform, "DROP OWNED BY {}", name)
                connections.run(platform, "DROP ROLE {}", name)


def test_tenants_cannot_alter_or_drop_the_role_of_poolers(instances: Instances, admin: tuple[Server, Any]) -> None:
    server, client = admin
    for attempt in ATTEMPTS:
        with pytest.raises(psycopg.Error):
            client.execute(attempt.encode())
    with connections.connect(instances.paths(server.service_id)) as platform:
        found = platform.execute(
            "SELECT rolcanlogin, rolsuper, rolreplication, pg_has_role(oid, 'pg_read_all_data', 'USAGE') FROM pg_roles"
            " WHERE rolname = 'pg_ramet_pooler'"
        )
        assert found.fetchall() == [(True, False, False, True)]


@pytest.mark.parametrize(
    "undo",
    [ensure_pooler_role, partial(rotate, verifier=unusable_verifier(), wal_level=WalLevel.REPLICA)],
    ids=["ensure", "fork"],
)
def test_what_a_tenant_does_as_a_member_of_the_role_of_poolers_is_undone(
    instances: Instances, admin: tuple[Server, Any], undo: Callable[[Any], object]
) -> None:
    server, client = admin
    if server.pg_major <= LAST_MAJOR_THAT_GRANTS_ANYTHING:
        for statement in TAKE_OVER:
            client.execute(statement)
    else:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute(TAKE_OVER[0])
    with connections.connect(instances.paths(server.service_id)) as platform:
        undo(platform)
        assert (
            platform.execute("SELECT FROM pg_auth_members WHERE roleid = 'pg_ramet_pooler'::regrole").fetchall() == []
        )
        assert platform.execute("SELECT setconfig FROM pg_db_role_setting").fetchall() == []
        found = platform.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'pg_ramet_pooler'").fetchall()
        assert found == [(None,)]


def test_a_role_that_a_tenant_names_as_earlier_releases_did_gets_nothing(
    instances: Instances, admin: tuple[Server, Any]
) -> None:
    server, client = admin
    for name in ("ramet_replica", "ramet_pooler"):
        client.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'mine'".encode())
        client.execute(f"GRANT pg_monitor TO {name}".encode())
    with connections.connect(instances.paths(server.service_id)) as platform:
        ensure_pooler_role(platform)
        retire_earlier_roles(platform, WalLevel.REPLICA)
    for name in ("ramet_replica", "ramet_pooler"):
        with connect(server, "mine", user=name, sslmode="prefer") as session:
            assert session.execute("SELECT current_user").fetchone() == (name,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("SELECT rolpassword FROM pg_authid")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("SELECT pg_create_physical_replication_slot('s')")
        for kind in ("database", "true"):
            with pytest.raises(psycopg.OperationalError, match=r"WAL sender|walsender|rejects replication"):
                connect(server, "mine", user=name, sslmode="prefer", replication=kind)


def test_the_endpoint_refuses_to_stream_files_whatever_attributes_a_role_has(
    instances: Instances, admin: tuple[Server, Any]
) -> None:
    server, client = admin
    client.execute("CREATE ROLE streams LOGIN PASSWORD 'mine'")
    with connections.connect(instances.paths(server.service_id)) as platform:
        platform.execute("ALTER ROLE streams REPLICATION")
    with pytest.raises(psycopg.OperationalError, match="rejects replication"):
        connect(server, "mine", user="streams", sslmode="prefer", replication="true")


@pytest.mark.parametrize("by", ["renewal", "fork"])
def test_roles_that_an_earlier_release_adopted_lose_what_it_gave_them(
    instances: Instances, admin: tuple[Server, Any], by: str
) -> None:
    server, client = admin
    client.execute("CREATE ROLE ramet_replica LOGIN PASSWORD 'mine'")
    client.execute("CREATE SCHEMA theirs")
    with connections.connect(instances.paths(server.service_id), connections.DATABASE) as platform:
        platform.execute("CREATE ROLE ramet_pooler LOGIN")
        platform.execute("GRANT pg_read_all_data TO ramet_pooler")
        platform.execute("ALTER ROLE ramet_pooler SET default_transaction_read_only = on")
        platform.execute("ALTER ROLE ramet_replica REPLICATION")
        platform.execute("ALTER SCHEMA theirs OWNER TO ramet_replica")
        if by == "renewal":
            retire_earlier_roles(platform, WalLevel.REPLICA)
        else:
            instances.secure(server, is_new=False, neutralize=False)
        roles = platform.execute("SELECT rolname, rolreplication FROM pg_roles WHERE rolname LIKE 'ramet_%'")
        assert sorted(roles.fetchall()) == [("ramet_replica", False)]
