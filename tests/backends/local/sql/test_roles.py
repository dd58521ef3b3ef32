"""Passwords of a fork: the admin's is new, all others are unknown."""

import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import log_files
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import concurrent_changes, connections, roles
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.service_type import ServiceType
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations

ODD_NAMES = ("Robert'); DROP ROLE x;--", 'quo"te', "back\\slash", "%s {} {verifier}", "naïve ✓", "-c x")


@pytest.fixture
def server(instances: Instances) -> Iterator[Server]:
    made = new_server(instances)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    instances.open(made)
    yield made
    instances.remove(made.service_id, 10)


def test_a_new_server_may_be_secured_twice(instances: Instances, server: Server) -> None:
    instances.secure(server, is_new=True, neutralize=False)
    with connections.connect(instances.paths(server.service_id)) as connection:
        owner = connection.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'tsdb'").fetchone()
    assert owner == ("tsdbadmin",)


def test_a_vector_service_is_created_with_its_extension(instances: Instances) -> None:
    able = [major for major, one in instances.installations.by_major.items() if one.has_extension("vector")]
    if not able:
        pytest.skip("no PostgreSQL of this host has pgvector")
    server = new_server(instances, service_type=ServiceType.VECTOR, pg_major=able[0])
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    with connections.connect(instances.paths(server.service_id), "tsdb") as connection:
        assert connection.execute("SELECT '[1,2]'::public.vector::text").fetchone() == ("[1,2]",)
    instances.remove(server.service_id, 10)


def test_any_printable_password_lets_the_admin_in(instances: Instances, server: Server) -> None:
    for text in (string.printable.strip(), "'\"\\", "{}%s$1", "plain"):
        instances.secure(replace(server, verifier=scram_verifier(Secret(text))), is_new=False, neutralize=False)
        with connect(server, text) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("tsdbadmin",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(server, text + "x")


def test_all_login_roles_lose_their_passwords(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as connection:
        for name in ODD_NAMES:
            connections.run(connection, "CREATE ROLE {} LOGIN PASSWORD {known}", name, known="known")
    for name in ODD_NAMES:
        connect(server, "known", user=name).close()
    neutralised = instances.secure(server, is_new=False, neutralize=True)
    assert neutralised["roles_rotated"] == len(ODD_NAMES) + 1
    for name in ODD_NAMES:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(server, "known", user=name)


def test_a_role_with_a_name_in_another_encoding_loses_its_password(instances: Instances, server: Server) -> None:
    paths, found = instances.paths(server.service_id), "SELECT rolpassword FROM pg_authid WHERE rolname ~ '^r[^a-z]$'"
    with connections.connect(paths) as platform:
        platform.execute("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with connections.connect(paths, "latin") as inside:
        connections.run(inside, "CREATE ROLE {} LOGIN PASSWORD 'known'", "r\udce9")
        before = set(inside.execute(found.encode()).fetchall())
    instances.secure(server, is_new=False, neutralize=True)
    with connections.connect(paths, "latin") as inside:
        assert not before & set(inside.execute(found.encode()).fetchall())
    with connections.connect(paths) as platform:
        connections.run(platform, "DROP ROLE {}", "r\udce9")
        platform.execute("DROP DATABASE latin")


def test_the_admin_of_a_fork_gets_in_whatever_the_parent_did_to_the_role(instances: Instances, server: Server) -> None:
    password = new_password()
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute("ALTER ROLE tsdbadmin NOLOGIN CONNECTION LIMIT 0 VALID UNTIL '2001-01-01'")
        connection.execute("REVOKE pg_monitor FROM tsdbadmin")
    instances.secure(replace(server, verifier=scram_verifier(password)), is_new=False, neutralize=True)
    connect(server, password).close()
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute("ALTER ROLE tsdbadmin RENAME TO somebody")
    instances.secure(replace(server, verifier=scram_verifier(password)), is_new=False, neutralize=True)
    connect(server, password).close()


@pytest.mark.parametrize("major", sorted(installations().by_major))
def test_the_admin_gets_its_memberships_though_tenants_made_those_roles_its_members(
    instances: Instances, major: int
) -> None:
    server = new_server(instances, password := new_password(), pg_major=major)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths, tenant = instances.paths(server.service_id), "tsdbadmin" if major == 15 else "helper"

    def turn_around() -> None:
        with connections.connect(paths) as connection:
            connection.execute("REVOKE pg_monitor, pg_signal_backend FROM tsdbadmin")
            connection.execute("GRANT helper TO pg_signal_backend")
            connection.execute(f"SET ROLE {tenant}".encode())
            connection.execute("GRANT tsdbadmin TO pg_monitor")

    with connections.connect(paths) as connection:
        connection.execute("CREATE ROLE helper")
        connection.execute("GRANT tsdbadmin TO helper WITH ADMIN OPTION")
    turn_around()
    instances.set_password(server, scram_verifier(password))
    turn_around()
    instances.secure(server, is_new=False, neutralize=True)
    with connections.connect(paths) as connection:
        wanted = "SELECT pg_has_role('tsdbadmin', role, 'MEMBER') FROM unnest(%s::text[]) AS role"
        assert connection.execute(wanted, (list(roles.ADMIN_MEMBERSHIPS),)).fetchall() == [(True,)] * 3
        connection.execute("DROP ROLE helper")
    instances.remove(server.service_id, 10)


def test_has_password_reflects_a_change_by_anybody(instances: Instances, server: Server) -> None:
    paths, first, second = instances.paths(server.service_id), new_password(), new_password()
    instances.set_password(server, scram_verifier(first))
    assert roles.admin_has(paths, first)
    assert roles.admin_has(paths, second) is False
    with connect(server, first) as admin:
        admin.execute(f"ALTER ROLE tsdbadmin PASSWORD '{second.reveal()}'".encode())
    assert roles.admin_has(paths, second)
    assert roles.admin_has(paths, first) is False
    instances.stop(server, 30)
    assert roles.admin_has(paths, second) is None


def set_while_altered(instances: Instances, server: Server, wanted: Secret) -> None:
    """Set a password while the admin alters its own role, and commits that as soon as the platform waits for it."""
    instances.set_password(server, scram_verifier(current := new_password()))
    waiting = "SELECT FROM pg_stat_activity WHERE application_name = 'ramet' AND wait_event_type = 'Lock'"
    platform = connections.connect(instances.paths(server.service_id))
    with platform as observer, connect(server, current) as admin, ThreadPoolExecutor(1) as pool:
        admin.execute("BEGIN")
        admin.execute("ALTER ROLE tsdbadmin PASSWORD 'other'")
        change = pool.submit(instances.set_password, server, scram_verifier(wanted))
        eventually(lambda: change.done() or observer.execute(waiting).rowcount == 1)
        assert not change.done()
        admin.execute("COMMIT")
        change.result()


def test_a_password_is_set_although_the_admin_alters_its_own_role(instances: Instances, server: Server) -> None:
    set_while_altered(instances, server, wanted := new_password())
    connect(server, wanted).close()


def test_no_advisory_lock_of_another_role_keeps_the_password_from_being_set(
    instances: Instances, server: Server
) -> None:
    """Who may connect can hold any advisory lock, also in a transaction that only reads, and after a restart."""
    instances.set_password(server, scram_verifier(current := new_password()))
    with connect(server, current) as admin:
        admin.execute("CREATE ROLE viewer LOGIN PASSWORD 'secret'")
    with connect(server, "secret", user="viewer", dbname="postgres") as viewer:
        viewer.execute("BEGIN READ ONLY")
        viewer.execute("SELECT pg_advisory_xact_lock(x'52616D6574'::bigint)")
        viewer.execute("PREPARE TRANSACTION 'v'")
    instances.set_password(server, scram_verifier(wanted := new_password()))
    connect(server, wanted).close()


def test_a_role_that_is_altered_each_time_is_called_locked(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrent_changes, "_ATTEMPTS", 1)
    with pytest.raises(Unavailable, match="keeps the role tsdbadmin locked"):
        set_while_altered(instances, server, new_password())


@pytest.mark.parametrize("major", sorted(installations().by_major))
@pytest.mark.parametrize("whose", ["ROLE tsdbadmin", "DATABASE tsdb", "ROLE tsdbadmin IN DATABASE tsdb"])
def test_settings_that_lock_the_admin_out_of_a_fork_are_removed_and_reported(
    instances: Instances, major: int, whose: str
) -> None:
    server = new_server(instances, pg_major=major)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute("SET ROLE tsdbadmin")
        for setting in ("local_preload_libraries = 'nowhere'", "idle_session_timeout = '1ms'", "work_mem = '5MB'"):
            connection.execute(f"ALTER {whose} SET {setting}".encode())
        if major >= 17:
            connection.execute(f"ALTER {whose} SET transaction_timeout = 1".encode())
    password = new_password()
    fork = replace(server, verifier=scram_verifier(password))
    found = instances.secure(fork, is_new=False, neutralize=False)
    closing = ["idle_session_timeout=1ms", "local_preload_libraries=nowhere"]
    assert found["settings_removed"] == closing + (["transaction_timeout=1"] if major >= 17 else [])
    instances.open(fork)
    with connect(fork, password, sslmode="prefer") as admin:
        assert admin.execute("SHOW work_mem").fetchone() == ("5MB",)
        admin.execute(f"ALTER {whose} SET idle_session_timeout = '1h'".encode())
        admin.execute(f"ALTER {whose} RESET work_mem".encode())
        admin.execute(f"ALTER {whose} SET local_preload_libraries = 'nowhere'".encode())
    instances.set_password(fork, scram_verifier(password))
    with connect(fork, password, sslmode="prefer") as admin:
        assert admin.execute("SHOW idle_session_timeout").fetchone() == ("1h",)
        admin.execute(f"ALTER {whose} RESET idle_session_timeout".encode())
        admin.execute(f"ALTER {whose} SET local_preload_libraries = 'nowhere'".encode())
    instances.set_password(fork, scram_verifier(password))
    connect(fork, password, sslmode="prefer").close()
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize(
    ("closing", "removed"),
    [
        ("ALTER DATABASE tsdb CONNECTION LIMIT 0", "connection_limit=0"),
        ("ALTER DATABASE tsdb ALLOW_CONNECTIONS false", "allow_connections=false"),
        ("REVOKE CONNECT ON DATABASE tsdb FROM PUBLIC, tsdbadmin", "connect=revoked"),
    ],
)
def test_a_database_that_admits_nobody_is_open_in_a_fork(
    instances: Instances, server: Server, closing: str, removed: str
) -> None:
    password = new_password()
    fork = replace(server, verifier=scram_verifier(password))
    with connections.connect(instances.paths(server.service_id), "tsdb") as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
        connection.execute("CREATE SERVER IF NOT EXISTS elsewhere FOREIGN DATA WRAPPER postgres_fdw")
        connection.execute("CREATE USER MAPPING FOR PUBLIC SERVER elsewhere OPTIONS (password 'secret')")
    with connections.connect(instances.paths(server.service_id)) as connection:
        connection.execute(closing.encode())
    found = instances.secure(fork, is_new=False, neutralize=True)
    assert found["settings_removed"] == [removed]
    assert (found["databases_not_entered"], found["user_mappings"]) == ([], 1)
    connect(fork, password).close()


def test_no_verifier_reaches_the_log_or_the_statistics(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    password = new_password()
    verifier = scram_verifier(password)
    with connections.connect(paths) as connection:
        connection.execute("CREATE ROLE broken LOGIN")
        with pytest.raises(psycopg.Error):
            connections.run(
                connection, "ALTER ROLE {} PASSWORD {verifier} NO SUCH", "broken", verifier=verifier.reveal()
            )
    instances.secure(replace(server, verifier=verifier), is_new=False, neutralize=True)
    with connect(server, password) as admin:
        admin.execute("SELECT count(*) AS of_the_admin FROM pg_roles")
    with connections.connect(paths, "tsdb") as connection:
        statements = str(connection.execute("SELECT query FROM public.pg_stat_statements").fetchall())
    assert "of_the_admin" in statements
    assert "SCRAM" not in statements

    def log() -> str:
        return "".join(file.read_text() for file in log_files.files(paths))

    eventually(lambda: "syntax error" in log())
    assert "SCRAM" not in log()
