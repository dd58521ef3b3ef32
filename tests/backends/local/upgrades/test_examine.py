"""The check before an upgrade executes nothing of tenants as superuser."""

import msgspec
import pytest

from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, session_settings
from ramet.backends.local.upgrades import survey
from ramet.backends.local.upgrades.examine import examine
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, connect, new_server

_TRAP = """
CREATE TABLE public.trapped (role name);
CREATE FUNCTION public.trap() RETURNS text LANGUAGE plpgsql AS
    'BEGIN INSERT INTO public.trapped VALUES (current_user); RETURN ''SELECT 1''; END';
"""
# One row, of this database, with the columns of the view that it replaces.
_COLUMNS = """
SELECT string_agg(CASE attname WHEN 'query' THEN 'public.trap()' WHEN 'toplevel' THEN 'true' WHEN 'userid' THEN '1::oid'
    WHEN 'dbid' THEN (SELECT oid || '::oid' FROM pg_database WHERE datname = current_database())
    ELSE 'NULL::' || format_type(atttypid, atttypmod) END || ' AS ' || quote_ident(attname), ', ' ORDER BY attnum)
FROM pg_attribute WHERE attrelid = 'public.pg_stat_statements'::regclass AND attnum > 0
"""


def test_a_view_that_a_tenant_has_put_in_the_place_of_an_extensions_is_not_read(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths, installation = instances.paths(server.service_id), instances.installations.of(server.pg_major)
    with connections.connect(paths, "tsdb") as connection:
        columns = connections.value(connection, _COLUMNS)
        connection.execute("ALTER VIEW public.pg_stat_statements OWNER TO tsdbadmin")
        connection.execute(_TRAP)
        connection.execute(f"CREATE OR REPLACE VIEW public.pg_stat_statements AS SELECT {columns}".encode())
        facts = examine(paths, installation, installation)
        assert connection.execute("SELECT role FROM public.trapped").fetchall() == []
    assert facts.statements == ()
    assert "does not have pg_stat_statements as its extension installs it" in str(facts.statements_note)
    instances.remove(server.service_id, 10)


def test_a_locked_view_hides_no_refusals(instances: Instances, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session_settings._OURS, "lock_timeout", "200ms")
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths, installation = instances.paths(server.service_id), instances.installations.of(server.pg_major)
    with connections.connect(paths, "tsdb") as connection:
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE public.pg_stat_statements")
        connection.execute("PREPARE TRANSACTION 'kept'")
    facts = examine(paths, installation, installation)
    assert facts.statements_note == "No plans are compared: a transaction locks pg_stat_statements."
    assert [one.subject for one in facts.refusals] == ["prepared transaction kept"]
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize(
    ("encoding", "count", "other"), [("LATIN1", 1, "UTF8"), ("LATIN1", 1, "EUC_JP"), ("SQL_ASCII", 0, "UTF8")]
)
def test_statements_are_those_of_a_database_in_another_encoding(
    instances: Instances, encoding: str, count: int, other: str
) -> None:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    paths, installation = instances.paths(server.service_id), instances.installations.of(server.pg_major)
    with connections.connect(paths) as connection:
        connection.execute("ALTER DATABASE tsdb RENAME TO before")
        for name, each in (("tsdb", encoding), ("other", other)):
            options = f"OWNER tsdbadmin ENCODING '{each}' LOCALE 'C' TEMPLATE template0"
            connection.execute(f"CREATE DATABASE {name} {options}".encode())
    with connections.connect(paths, "tsdb") as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
    with connect(server, password, sslmode="prefer", client_encoding=encoding) as connection:
        connection.execute('CREATE TABLE "é" ()'.encode("latin-1"))
        connection.execute('SELECT FROM "é"'.encode("latin-1"))
    facts = examine(paths, installation, installation)
    assert msgspec.json.encode(facts)
    assert [one.text for one in facts.statements] == ['SELECT FROM "é"'] * count
    with connect(server, password, dbname="other", sslmode="prefer", client_encoding="UTF8") as connection:
        connection.execute('SELECT 1 AS "あ"')
    beside = examine(paths, installation, installation)
    assert (beside.statements, "does not fit" in str(beside.statements_note)) == ((), encoding == "LATIN1")
    survey.make(instances, server, facts.statements)
    made = survey.made(paths, server.pg_major)
    assert made is not None
    assert [(one.lines, one.problem) for one in made.plans] == [(("Seq Scan on é",), None)] * count
    instances.remove(server.service_id, 10)


def test_databases_that_pg_upgrade_refuses_are_named_with_what_helps(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths, installation = instances.paths(server.service_id), instances.installations.of(server.pg_major)
    with connections.connect(paths) as connection:
        for name in ("broken", "closed"):
            connection.execute(f"CREATE DATABASE {name}".encode())
        connection.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")
        connection.execute("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'broken'")
    found = {one.subject: one.remedy for one in examine(paths, installation, installation).refusals}
    assert found == {
        "database broken": 'DROP DATABASE "broken".',
        "database closed": 'ALTER DATABASE "closed" ALLOW_CONNECTIONS true, or drop it.',
    }
    instances.remove(server.service_id, 10)
