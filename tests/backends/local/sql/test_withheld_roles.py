"""Members that an earlier release let tenants have in roles that are withheld now."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, read_only_access, securing
from ramet.backends.local.upgrades import platform_objects
from tests.backends.local.hosts import boot, new_server
from tests.servers import installations

# As initdb of PostgreSQL 15 makes it.
_MAKE = """
INSERT INTO pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
    rolbypassrls, rolconnlimit)
SELECT 6182, 'pg_write_all_data', false, true, false, false, false, false, false, -1
WHERE NOT EXISTS (SELECT FROM pg_authid WHERE oid = 6182)
"""


@pytest.fixture(scope="module", params=sorted(installations().by_major))
def server(instances: Instances, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(instances, pg_major=request.param)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    with connections.connect(instances.paths(made.service_id)) as platform:
        platform.execute("CREATE ROLE helper")
        platform.execute("CREATE ROLE eve")
    yield made
    instances.remove(made.service_id, 10)


def can_lock(instances: Instances, server: Server) -> bool:
    with connections.connect(instances.paths(server.service_id)) as session, session.transaction(force_rollback=True):
        session.execute("SET LOCAL ROLE tsdbadmin")
        try:
            session.execute("LOCK TABLE pg_catalog.pg_stat_activity IN ACCESS EXCLUSIVE MODE")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True


@pytest.mark.parametrize(
    "change",
    [
        lambda instances, server: read_only_access.renew(instances.paths(server.service_id)),
        lambda instances, server: instances.secure(server, is_new=False, neutralize=True),
        lambda instances, server: securing.secure_moved(instances.paths(server.service_id), server),
        lambda instances, server: platform_objects.take_out(instances.paths(server.service_id)),
    ],
    ids=["refresh", "fork", "move", "upgrade"],
)
def test_a_service_of_an_earlier_release_loses_members_of_roles_that_lock_what_sessions_begin_with(
    instances: Instances, server: Server, change: Callable[[Instances, Server], Any]
) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as platform:
        platform.execute(_MAKE)
        if server.pg_major == 15:
            platform.execute("GRANT pg_monitor TO pg_write_all_data")
        platform.execute("GRANT pg_write_all_data TO helper WITH ADMIN OPTION")
        platform.execute("SET ROLE helper")
        platform.execute("GRANT pg_write_all_data TO tsdbadmin")
    assert can_lock(instances, server)
    change(instances, server)
    assert not can_lock(instances, server)
    with connections.connect(paths) as platform:
        assert platform.execute("SELECT FROM pg_auth_members WHERE 6182 IN (roleid, member)").fetchall() == []
    change(instances, server)


@pytest.mark.parametrize("change", ["GRANT pg_write_all_data TO tsdbadmin", "REVOKE pg_write_all_data FROM helper"])
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_prepared_transaction_does_not_keep_members(
    instances: Instances, server: Server, change: str, *, is_moved: bool
) -> None:
    paths = instances.paths(server.service_id)
    assert read_only_access.renew(paths)  # other tests leave it without, or with that of another release
    with connections.connect(paths) as platform:
        _let_helper_grant(platform)
        for statement in ("BEGIN", change, "PREPARE TRANSACTION 'change'"):
            platform.execute(statement.encode())
        assert securing.secure_moved(paths, server) if is_moved else read_only_access.renew(paths)
        with pytest.raises(psycopg.errors.UndefinedObject):
            platform.execute("COMMIT PREPARED 'change'")
        assert platform.execute("SELECT FROM pg_auth_members WHERE roleid = 6182").fetchall() == []


@pytest.mark.parametrize("change", ["GRANT pg_write_all_data TO eve", "REVOKE pg_write_all_data FROM helper"])
def test_a_transaction_that_keeps_members_does_not_keep_the_rest_of_an_earlier_release(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    paths = instances.paths(server.service_id)
    monkeypatch.setattr(read_only_access, "_VERSION", f"a release after {server.pg_major}, {change}")
    with connections.connect(paths) as platform, connections.connect(paths, "tsdb") as tenants:
        _let_helper_grant(platform)
        platform.execute("BEGIN")
        platform.execute(change.encode())
        assert not read_only_access.renew(paths)
        assert read_only_access.is_current(tenants)
        platform.execute("COMMIT")
        assert read_only_access.renew(paths)
        assert platform.execute("SELECT FROM pg_auth_members WHERE roleid = 6182").fetchall() == []


@pytest.mark.parametrize("server", [15], indirect=True)
@pytest.mark.parametrize("is_committed_soon", [True, False])
def test_a_grant_that_waits_for_the_refresh_does_not_keep_members(
    instances: Instances, server: Server, *, is_committed_soon: bool
) -> None:
    """On 15, which has found the role when it waits, and would make a member of it after it is deleted."""
    paths = instances.paths(server.service_id)

    def wait(what: str) -> None:
        query = "SELECT FROM pg_locks WHERE relation = 'pg_auth_members'::regclass AND mode = %s AND NOT granted"
        eventually(lambda: platform.execute(query, (what,)).rowcount == 1, what, 0.01)

    with (
        connections.connect(paths) as platform,
        connections.connect(paths) as holder,
        connections.connect(paths, lock_timeout="0") as granting,
        ThreadPoolExecutor(2) as threads,
    ):
        _let_helper_grant(platform)
        holder.execute("BEGIN")
        holder.execute("GRANT pg_monitor TO helper")
        renewing = threads.submit(read_only_access.renew, paths)
        wait("ShareLock")
        granting.execute("BEGIN")
        granted = threads.submit(granting.execute, b"GRANT pg_write_all_data TO eve")
        wait("RowExclusiveLock")
        holder.execute("ROLLBACK")
        granted.result()
        if is_committed_soon:
            granting.execute("COMMIT")
        assert renewing.result() == is_committed_soon
        granting.execute("COMMIT")
        assert read_only_access.renew(paths)
        assert platform.execute("SELECT FROM pg_auth_members WHERE roleid = 6182").fetchall() == []


def _let_helper_grant(platform: connections.Connection) -> None:
    platform.execute(_MAKE)
    platform.execute("GRANT pg_write_all_data TO helper WITH ADMIN OPTION")
