"""`ramet db dump`: what it writes can be loaded elsewhere by anybody, and is all of the database."""

import subprocess

import pytest

from harness.instance import Instance, connect
from ramet.model.passwords import Secret
from tests.imports.dumps import comparable, dump
from tests.sources import OWNER, PASSWORD, Source

pytestmark = pytest.mark.slow
SCHEMA = """
CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
COMMENT ON TABLE customers IS 'about pg_stat_statements and ramet_begin_session';
CREATE TABLE orders (id bigserial PRIMARY KEY, customer int REFERENCES customers, at date) ;
INSERT INTO customers (name) SELECT 'it''s ' || i FROM generate_series(1, 100) i;
INSERT INTO orders (customer, at) SELECT 1 + i % 100, '2026-01-01' FROM generate_series(1, 500) i;
CREATE VIEW totals AS SELECT customer, count(*) FROM orders GROUP BY 1;
CREATE SCHEMA "Odd schema";
CREATE FUNCTION "Odd schema".timescale_functions() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE ROLE app;
GRANT app TO tsdbadmin;
GRANT CREATE ON SCHEMA public TO app;
ALTER TABLE orders OWNER TO app;
GRANT SELECT ON customers TO app;
SELECT lo_from_bytea(4242, 'large');
CREATE ROLE "Odd ""role's"", TO x";
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY "a ""policy"" TO x" ON customers FOR SELECT TO app, "Odd ""role's"", TO x" USING (id < 100);
CREATE POLICY b ON customers AS RESTRICTIVE FOR INSERT TO tsdbadmin WITH CHECK (true);
CREATE POLICY c ON customers USING (name <> ' TO nobody');
"""


def test_a_dump_is_loaded_by_another_role_into_another_server(ramet: Instance, plain_source: Source) -> None:
    with ramet.client() as client:
        accepted = client.create_service("shop")
        client.wait_ready(accepted.service_id, timeout_seconds=120)
    password = str(accepted.initial_password)
    with connect(accepted.endpoint.port, password) as service:
        service.execute(SCHEMA.encode())
    ramet.environment |= {"RAMET_CREDENTIALS_FILE": str(ramet.credentials_file), "PGPASSWORD": password}
    file = ramet.root / "shop.sql"
    written = ramet.run("db", "dump", accepted.service_id, "--file", str(file))
    assert (written.returncode, written.stderr) == (0, "")
    printed = ramet.run("db", "dump", accepted.service_id)
    assert comparable(printed.stdout) == comparable(file.read_text())
    assert [path.name for path in ramet.root.iterdir() if path.name.startswith(".ramet-dump")] == []

    plain_source.run("CREATE ROLE somebody LOGIN CREATEROLE PASSWORD 'x'; ALTER DATABASE shop OWNER TO somebody")
    variables = {
        "PGHOST": str(plain_source.directory), "PGPORT": str(plain_source.own_port), "PGUSER": "somebody",
        "PGPASSWORD": "x", "PGDATABASE": "shop",
    }  # fmt: skip
    psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file)]
    loaded = subprocess.run(psql, env=variables, capture_output=True, text=True, check=False)
    assert (loaded.returncode, loaded.stderr) == (0, "")

    portable = ("--no-owner", "--no-privileges")
    major = plain_source.installation.major
    theirs = {**variables, "PGUSER": OWNER, "PGPASSWORD": PASSWORD.reveal()}
    ours = {
        "PGHOST": "localhost", "PGPORT": str(accepted.endpoint.port), "PGUSER": "tsdbadmin", "PGDATABASE": "tsdb",
        "PGPASSWORD": password,
    }  # fmt: skip
    assert comparable(dump(major, theirs, *portable)) == comparable(dump(major, ours, *portable))
    with ramet.client() as client:
        client.update_password(accepted.service_id, Secret("another"))
    failed = ramet.run("db", "dump", accepted.service_id, "--file", str(ramet.root / "never.sql"))
    assert (failed.returncode, "pg_dump ended with exit status 1" in failed.stderr) == (1, True)
    assert not (ramet.root / "never.sql").exists()
