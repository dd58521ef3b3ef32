"""A database that a transaction locks is not entered again and again: each session that waits there stays."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import closed_databases, connections, read_only_access
from ramet.backends.local.sql.connections import Connection, Database
from ramet.backends.local.sql.raw_names import database_of
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.sql.tenants import Tenant

_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = objid
WHERE classid = 'pg_database'::regclass AND NOT granted
"""


@pytest.fixture
def tenant(instances: Instances) -> Iterator[Tenant]:
    """The admin of a service whose prepared transaction renames two databases, one of them that of the tenants."""
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    made = Tenant(instances, server, password)
    made.run("CREATE DATABASE other")
    made.run("CREATE DATABASE locked")
    renames = [f"ALTER DATABASE {name} RENAME TO {name}_renamed" for name in ("tsdb", "locked")]
    made.run("BEGIN", *renames, "PREPARE TRANSACTION 'renames'", dbname="other")
    yield made
    instances.remove(server.service_id, 10)


def test_at_most_one_session_waits_in_a_locked_database_and_it_is_entered_afterwards(tenant: Tenant) -> None:
    paths = tenant.instances.paths(tenant.server.service_id)
    assert [read_only_access.renew(paths) for _ in range(3)] == [False] * 3
    with connections.connect_inside(paths) as connection:
        assert database_of(connection) == "postgres"
        assert connection.execute(_WAITING.encode()).fetchone() == (1,)
    tenant.run("ROLLBACK PREPARED 'renames'", dbname="other")
    with connections.connect_inside(paths) as connection:
        assert database_of(connection) == "tsdb"
        assert connection.execute(_WAITING.encode()).fetchone() == (0,)
    assert read_only_access.renew(paths)


def test_a_closed_database_of_the_tenants_is_not_opened_while_another_one_is_locked(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, entered, entering = tenant.instances.paths(tenant.server.service_id), [], closed_databases.entered

    def enter(paths: ServicePaths, database: Database) -> AbstractContextManager[Connection]:
        entered.append(database.name)
        return entering(paths, database)

    tenant.run("ROLLBACK PREPARED 'renames'", dbname="other")
    tenant.run("BEGIN", "ALTER DATABASE locked RENAME TO renamed", "PREPARE TRANSACTION 'renames'", dbname="other")
    with connections.connect(paths, "postgres") as platform:
        platform.execute("ALTER DATABASE tsdb ALLOW_CONNECTIONS false")
    monkeypatch.setattr(closed_databases, "entered", enter)
    assert not read_only_access.renew(paths)
    assert "tsdb" not in entered
    tenant.run("ROLLBACK PREPARED 'renames'", dbname="other")
    assert read_only_access.renew(paths)
    assert "tsdb" in entered
