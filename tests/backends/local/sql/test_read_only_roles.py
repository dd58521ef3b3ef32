"""A check of marked roles takes a bounded time, whatever tenants lock: other servers wait for it."""

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server import read_only_module
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import ownership, read_only_roles
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.errors import Unavailable
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, connect, new_server
from tests.backends.local.sql.tenants import Tenant

MARK = "ALTER ROLE {} SET tsdb_admin.read_only_role = true"


@pytest.fixture(scope="module")
def server(instances: Instances) -> Iterator[Tenant]:
    """The admin of a service without the module: what holds, holds by privileges."""
    password = new_password()
    server = new_server(instances, password)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_only_module, "library_of", lambda _: instances.layout.services / "none.so")
        boot(instances, server)
        instances.secure(server, is_new=True, neutralize=False)
        instances.open(server)
    yield Tenant(instances, server, password)
    instances.remove(server.service_id, 10)


@pytest.fixture
def tenant(server: Tenant, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """The admin of that service, whose marked roles of earlier tests are settled."""
    made = replace(server, read_only_roles=ReadOnlyRoles())
    with monkeypatch.context() as patient:
        patient.setattr(read_only_roles, "_BUDGET_SECONDS", math.inf)
        made.enforce()
    return made


def test_roles_whose_tables_stay_locked_hold_up_no_others_and_are_tried_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, now, take_rights = list[str](), [time.monotonic()], read_only_roles._take_rights

    def take_a_second(paths: Any, connection: Any, role: Any) -> None:
        tried.append(role.name)
        now[0] += 1
        take_rights(paths, connection, role)

    def tried_by(calls: int) -> list[str]:
        before = len(tried)
        for _ in range(calls):
            tenant.enforce()
        return tried[before:]

    monkeypatch.setattr(read_only_roles, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(read_only_roles, "_LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(read_only_roles, "_take_rights", take_a_second)
    busy = [_owner_of_a_table(tenant, f"busy_{number}") for number in range(5)]
    with connect(tenant.server, tenant.password, sslmode="prefer") as session, session.transaction():
        for name in busy:
            session.execute(f"LOCK {name}.t IN ACCESS SHARE MODE".encode())
        first = tried_by(1)
        assert len(first) == 2
        assert sorted(first + tried_by(2)) == busy
        idle = _owner_of_a_table(tenant, "idle")
        assert tried_by(2) == [idle]
        assert not tenant.can_write(idle, f"INSERT INTO {idle}.t VALUES (1)")
        assert tenant.can_write(busy[0], f"INSERT INTO {busy[0]}.t VALUES (1)")
    now[0] += 60
    assert sorted(tried_by(3)[:5]) == busy
    assert not [name for name in busy if tenant.can_write(name, f"INSERT INTO {name}.t VALUES (1)")]


def _owner_of_a_table(tenant: Tenant, name: str) -> str:
    """Make and mark a role that owns a table."""
    tenant.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'secret'",
        f"GRANT {name} TO tsdbadmin",
        f"CREATE SCHEMA {name} AUTHORIZATION {name}",
        f"SET ROLE {name}",
        f"CREATE TABLE {name}.t (id int)",
        "RESET ROLE",
        MARK.format(name),
    )
    return name


def test_a_role_for_which_a_database_cannot_be_reached_holds_up_no_others(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[str]()

    def fail(_paths: Any, _connection: Any, role: Any) -> None:
        tried.append(role.name)
        raise Unavailable("SERVER_UNREACHABLE", "A prepared transaction locks its database")

    tenant.run("CREATE ROLE one", MARK.format("one"), "CREATE ROLE other", MARK.format("other"))
    monkeypatch.setattr(read_only_roles, "_take_rights", fail)
    tenant.enforce()
    assert sorted(tried) == ["one", "other"]


def test_a_check_that_failed_is_made_again_also_where_no_wal_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, now, roles = list[float](), [1.0], ReadOnlyRoles()
    paths = ServicePaths(tmp_path, tmp_path)
    (paths.data / "pg_wal").mkdir(parents=True)
    (paths.data / "pg_wal" / "segment").touch()

    def settle(*_: Any) -> dict[Any, float]:
        checks.append(now[0])
        if len(checks) == 1:
            raise Unavailable("SERVER_UNREACHABLE", "It starts")
        return {}

    monkeypatch.setattr(read_only_roles, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(read_only_roles, "_settle", settle)
    for now[0] in (1.0, 2.0, 31.0, 32.0, 62.0):
        roles.enforce(paths)
    assert checks == [1.0, 31.0]


def test_a_role_that_stays_locked_is_tried_less_and_less_until_wal_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, now, roles = list[float](), [0.0], ReadOnlyRoles()
    role = read_only_roles._Role(1, "locked", "")
    paths = ServicePaths(tmp_path, tmp_path)
    (paths.data / "pg_wal").mkdir(parents=True)

    def fail(*_: Any) -> bool:
        tried.append(now[0])
        return False

    def write_wal() -> None:
        segment = paths.data / "pg_wal" / "segment"
        segment.touch()
        os.utime(segment, ns=(0, int(1e9 * (now[0] + 1))))

    monkeypatch.setattr(read_only_roles, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(read_only_roles, "_session", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(read_only_roles, "_marked", lambda _: [role])
    monkeypatch.setattr(read_only_roles, "_try_to_take_rights", fail)
    write_wal()
    for now[0] in range(1000):
        roles.enforce(paths)
    assert tried == [0, 30, 60, 120, 240, 480, 960]
    write_wal()
    for now[0] in range(1000, 1100):
        roles.enforce(paths)
    assert tried[7:] == [1030, 1060]


def test_no_session_waits_in_a_database_that_a_prepared_transaction_locks(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = (
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = objid AND datname = 'locked'"
        " WHERE classid = 'pg_database'::regclass AND NOT granted"
    )
    tenant.run("CREATE DATABASE locked")
    tenant.run("BEGIN", "ALTER DATABASE locked RENAME TO renamed", "PREPARE TRANSACTION 'rename'")
    owner = _owner_of_a_table(tenant, "owner_of_one")
    tenant.enforce()
    assert tenant.run(waiting) == [(0,)]
    tenant.run("ROLLBACK PREPARED 'rename'")
    monkeypatch.setattr(read_only_roles, "_BUDGET_SECONDS", math.inf)
    replace(tenant, read_only_roles=ReadOnlyRoles()).enforce()
    assert not tenant.can_write(owner, f"INSERT INTO {owner}.t VALUES (1)")


def test_no_advisory_lock_keeps_a_role_its_privileges(tenant: Tenant) -> None:
    owner = _owner_of_a_table(tenant, "owner_beside_advisory_locks")
    with connect(tenant.server, tenant.password, sslmode="prefer") as session:
        session.execute("SELECT pg_advisory_lock('pg_database'::regclass::oid::int, oid::int) FROM pg_database")
        tenant.enforce()
    assert not tenant.can_write(owner, f"INSERT INTO {owner}.t VALUES (1)")


def test_a_statement_that_waits_for_too_many_locks_is_ended(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(read_only_roles, "_LOCK_TIMEOUT", "30s")
    monkeypatch.setattr(read_only_roles, "_STATEMENT_TIMEOUT", "2s")
    owner = _owner_of_a_table(tenant, "long_locked")
    with connect(tenant.server, tenant.password, sslmode="prefer") as session, session.transaction():
        session.execute(f"LOCK {owner}.t IN ACCESS SHARE MODE".encode())
        tenant.enforce()
    assert "role long_locked" in caplog.text
    assert "statement timeout" in caplog.text


@pytest.mark.parametrize("right", ["owner", "function", "grant", "default", "member"])
def test_a_role_for_which_the_time_is_over_is_left_as_it_is(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, right: str
) -> None:
    name, other = f"late_{right}", f"late_other_{right}"
    statements = {
        "owner": [f"CREATE SCHEMA {name} AUTHORIZATION {name}"],
        "function": [
            f"GRANT CREATE ON SCHEMA public TO {name}",
            f"SET ROLE {name}",
            f"CREATE FUNCTION {name}() RETURNS int LANGUAGE sql SECURITY DEFINER RETURN 1",
            "RESET ROLE",
            f"REVOKE CREATE ON SCHEMA public FROM {name}",
        ],
        "grant": [f"CREATE TABLE {name} (id int)", f"GRANT INSERT ON {name} TO {name}"],
        "default": [f"ALTER DEFAULT PRIVILEGES GRANT INSERT ON TABLES TO {name}"],
        "member": [f"CREATE ROLE {other} CREATEDB", f"GRANT {other} TO {name}"],
    }
    tenant.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'", f"GRANT {name} TO tsdbadmin", *statements[right])
    with monkeypatch.context() as hurried:
        hurried.setattr(read_only_roles, "_ROLE_SECONDS", 0.0)
        tenant.run(MARK.format(name))
        tenant.enforce()
    assert f"role {name} of service {tenant.server.service_id} keeps write privileges: Changing" in caplog.text


def test_what_is_revoked_until_the_time_is_over_stays_revoked(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "many_grants"
    tenant.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'", f"GRANT {name} TO tsdbadmin")
    for number in range(3):
        tenant.run(f"CREATE TABLE granted_{number} (id int)", f"GRANT INSERT ON granted_{number} TO {name}")

    def two_in_time(found: Any, _deadline: float) -> Iterator[Any]:
        for number, one in enumerate(found):
            if number == 2:
                raise Unavailable("ROLE_LOCKED", "Changing takes too long")
            yield one

    with monkeypatch.context() as hurried:
        hurried.setattr(ownership, "in_time", two_in_time)
        tenant.run(MARK.format(name))
        tenant.enforce()
    left = [tenant.can_write(name, f"INSERT INTO granted_{number} VALUES (1)") for number in range(3)]
    assert left.count(True) == 1
