"""After a copy of a server elsewhere was taken over, no tenant connects to the private socket without a password."""

from collections.abc import Iterator

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, read_only_access
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.sql.test_adoption import Adopted, run, secure

_NEAR = """
CREATE EXTENSION postgres_fdw;
CREATE SERVER near FOREIGN DATA WRAPPER postgres_fdw;
CREATE USER MAPPING FOR app SERVER near OPTIONS (user 'a', password_required 'false', password 'secret');
CREATE USER MAPPING FOR PUBLIC SERVER near OPTIONS (password_required 'off');
CREATE USER MAPPING FOR x SERVER near OPTIONS (user 'b', password 'secret');
CREATE FOREIGN TABLE secrets (rolname name, rolpassword text) SERVER near
    OPTIONS (schema_name 'pg_catalog', table_name 'pg_authid')
"""


@pytest.fixture
def source(instances: Instances) -> Iterator[Server]:
    """A copy that was not taken over yet."""
    server = new_server(instances)
    paths = instances.paths(server.service_id)
    boot(instances, server)
    run(paths, "postgres", "CREATE ROLE x SUPERUSER LOGIN; CREATE ROLE app")
    run(paths, "postgres", "CREATE DATABASE shop OWNER x")
    yield server
    instances.remove(server.service_id, 10)


def test_no_foreign_server_connects_to_the_private_socket_without_a_password(
    instances: Instances, source: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = instances.paths(source.service_id)
    run(paths, "shop", _NEAR)
    found = Adopted(instances, source, secure(instances, source, "shop"))
    assert found.report["adopted"]["passwords_required"] == [
        "shop: user mapping for app on server near", "shop: user mapping for public on server near",
    ]  # fmt: skip
    options = "SELECT umoptions FROM pg_user_mapping ORDER BY 1"
    kept = [(["user=a", "password=secret"],), (["user=b", "password=secret"],), (None,)]
    assert found.query(options) == kept
    with connections.connect(paths, "tsdb") as connection:
        socket = f"host '{connection.info.host}', port '{connection.info.port}', dbname 'tsdb'"
        connection.execute("SET SESSION AUTHORIZATION tsdbadmin")
        connection.execute(f"ALTER SERVER near OPTIONS ({socket})".encode())
        with pytest.raises(psycopg.Error, match="password"):
            connection.execute("SELECT FROM public.secrets")

    as_earlier_releases_left_it = "UPDATE pg_user_mapping SET umoptions = '{password_required=false}' WHERE umuser = 0"
    run(paths, "tsdb", as_earlier_releases_left_it)
    with monkeypatch.context() as patched:
        patched.setattr(read_only_access, "_VERSION", "that of the next release")
        assert instances.renew(source.service_id)
    assert found.query(options) == kept

    # Also while another database keeps the service from being renewed.
    run(paths, "tsdb", as_earlier_releases_left_it)
    run(paths, "postgres", "CREATE DATABASE locked OWNER tsdbadmin")
    run(paths, "tsdb", "BEGIN; ALTER DATABASE locked RENAME TO renamed; PREPARE TRANSACTION 'rename'")
    with monkeypatch.context() as patched:
        patched.setattr(read_only_access, "_VERSION", "that of the one after it")
        assert not instances.renew(source.service_id)
    run(paths, "tsdb", "ROLLBACK PREPARED 'rename'")
    assert found.query(options) == kept


def test_nobody_keeps_the_function_of_dblink_that_connects_without_a_password(
    instances: Instances, source: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = instances.paths(source.service_id)
    granted = "GRANT EXECUTE ON FUNCTION public.dblink_connect_u(text) TO app"
    run(paths, "shop", f"SET ROLE x; CREATE EXTENSION dblink; {granted}")
    found = Adopted(instances, source, secure(instances, source, "shop"))
    assert "shop: public.dblink_connect_u(text)" in found.report["adopted"]["functions_revoked"]
    may_connect = "SELECT has_function_privilege('tsdbadmin', 'public.dblink_connect_u(text)', 'EXECUTE')"
    assert found.query(may_connect) == [(False,)]

    run(paths, "tsdb", granted)
    assert found.query(may_connect) == [(True,)]
    with monkeypatch.context() as patched:
        patched.setattr(read_only_access, "_VERSION", "that of the next release")
        assert instances.renew(source.service_id)
    assert found.query(may_connect) == [(False,)]
    run(paths, "tsdb", "DROP ROLE app")  # nothing refers to it


def test_no_session_of_the_platform_begins_by_dblink_before_that_asks_for_a_password(
    instances: Instances, source: Server
) -> None:
    """Where Ramet and its servers are one system user, the private socket cannot tell them apart."""
    if not instances.account.lent:
        pytest.skip("this process is not root")
    run(instances.paths(source.service_id), "shop", "CREATE EXTENSION dblink SCHEMA public")
    found = Adopted(instances, source, secure(instances, source, "shop"))
    kind = psycopg.errors.SqlclientUnableToEstablishSqlconnection
    refused = pytest.raises(kind, match='Peer authentication failed for user "ramet"')
    with refused, connections.connect(found.paths, "tsdb") as connection:
        socket = f"host={connection.info.host} port={connection.info.port} user=ramet dbname=postgres password=x"
        connection.execute("SET SESSION AUTHORIZATION tsdbadmin")
        connection.execute("SELECT public.dblink_connect(%s)", (socket,))
