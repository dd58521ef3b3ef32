"""What earlier releases made heeds the settings as what is made now."""

from dataclasses import replace

import psycopg
import pytest

from ramet.backends.local import sql
from ramet.backends.local.installation import find_installations
from ramet.backends.local.servers import Servers
from ramet.model.credentials import new_password, scram_verifier
from tests.backends.local.hosts import boot, connect, new_server

READ_ONLY = "-c tsdb_admin.read_only_connection=true"
EARLIER = """
ALTER EXTENSION plpgsql DROP EVENT TRIGGER ramet_guard_tables;
DROP EVENT TRIGGER ramet_guard_tables;
CREATE OR REPLACE FUNCTION pg_catalog.ramet_guard_tables() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER ramet_guard_tables ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
EXECUTE FUNCTION pg_catalog.ramet_guard_tables();
ALTER EXTENSION plpgsql ADD EVENT TRIGGER ramet_guard_tables;
"""


@pytest.mark.parametrize("major", [one.major for one in find_installations().found])
@pytest.mark.parametrize("by", ["renewal", "fork"])
def test_the_guards_of_an_earlier_release_are_renewed(servers: Servers, major: int, by: str) -> None:
    password = new_password()
    server = new_server(servers, password, pg_major=major)
    boot(servers, server)
    servers.secure(server, newborn=True, quiet=False)
    with sql.connect(servers.paths(server.service_id), sql.DATABASE) as platform:
        platform.execute(EARLIER)
    servers.open(server)
    with connect(server, password, sslmode="prefer") as owner:
        owner.execute("CREATE SCHEMA quick CREATE TABLE t (id int)")
    with connect(server, password, sslmode="prefer", options=READ_ONLY) as reader:
        reader.execute("SET default_transaction_read_only = off")
        reader.execute("INSERT INTO quick.t VALUES (1)")

    if by == "renewal":
        servers.renew(server.service_id)
    else:
        password = new_password()
        servers.secure(replace(server, verifier=scram_verifier(password)), newborn=False, quiet=True)
    with connect(server, password, sslmode="prefer") as owner:
        owner.execute("CREATE SCHEMA later CREATE TABLE t (id int)")
    for table in ("quick.t", "later.t"):
        with connect(server, password, sslmode="prefer", options=READ_ONLY) as reader:
            reader.execute("SET default_transaction_read_only = off")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                reader.execute(f"INSERT INTO {table} VALUES (1)".encode())
    servers.remove(server.service_id, 10)
