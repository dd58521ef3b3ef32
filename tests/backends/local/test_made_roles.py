"""`ramet db create role` and `ramet db schema` on a real server, where other roles own things too."""

import os
from collections.abc import Iterator

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.cli.commands.roles import NewRole, make_role
from ramet.cli.commands.schema import dump_schema
from ramet.errors import Failed
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server
from tests.servers import installations


class Place:
    """A server, as its admin and others see it."""

    def __init__(self, server: Server, password: Secret) -> None:
        self.server, self.password = server, password

    @property
    def uri(self) -> str:
        return f"host=localhost port={self.server.port} user=tsdbadmin dbname=tsdb password={self.password.reveal()}"

    def run(self, *statements: str, role: NewRole | None = None) -> list[tuple[object, ...]]:
        password, user = (self.password, "tsdbadmin") if role is None else (role.password, role.name)
        with connect(self.server, password, user=user, sslmode="prefer") as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module", params=[one.major for one in installations().found])
def place(request: pytest.FixtureRequest, instances: Instances) -> Iterator[Place]:
    password = new_password()
    server = new_server(instances, password, pg_major=request.param)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield Place(server, password)
    instances.remove(server.service_id, 10)


@pytest.mark.parametrize(("name", "timeout"), [("", None), ("slow", "soon"), ("tsdbadmin", None)])
def test_what_fails_shows_no_part_of_the_verifier(place: Place, name: str, timeout: str | None) -> None:
    with pytest.raises(Failed) as caught:
        make_role(place.uri, NewRole(name, new_password(), statement_timeout=timeout))
    message = f"{caught.value.message} {caught.value.details}"
    assert "SCRAM" not in message
    assert "CREATE ROLE" not in message
    assert caught.value.details


def test_a_read_only_role_reads_all_that_is_there_and_comes_and_writes_nothing(place: Place) -> None:
    place.run(
        "CREATE TABLE orders (id serial)",
        "CREATE ROLE other LOGIN",
        "GRANT other TO tsdbadmin",
        "GRANT CREATE ON DATABASE tsdb TO other",
        "CREATE SCHEMA private AUTHORIZATION other CREATE TABLE notes (id int)",
        "CREATE ROLE grouped",
        "GRANT SELECT ON orders TO grouped",
    )
    reader = NewRole("reader", new_password(), read_only=True, parents=("tsdbadmin", "grouped"), statement_timeout="9s")
    make_role(place.uri, reader)
    place.run("CREATE SCHEMA later CREATE TABLE t (id int)")
    for readable in ("orders", "orders_id_seq", "private.notes", "later.t"):
        place.run(f"SELECT * FROM {readable}", role=reader)
    assert place.run("SHOW statement_timeout", role=reader) == [("9s",)]
    for escape in ("SET default_transaction_read_only = off", "RESET ALL"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
            place.run(escape, "INSERT INTO orders VALUES (1)", role=reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        place.run("SET ROLE tsdbadmin", role=reader)


def test_the_error_for_an_unusable_schema_names_the_remedy(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.run(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.goods (id int)",
        "CREATE TABLE shop.hidden (id int)",
        "CREATE ROLE hider",
        "GRANT hider TO tsdbadmin",
        "GRANT ALL ON SCHEMA shop TO hider",
        "ALTER TABLE shop.hidden OWNER TO hider",
        "REVOKE hider FROM tsdbadmin",
    )
    with pytest.raises(Failed, match="permission denied for table hidden") as caught:
        dump_schema("shop", place.uri, os.environ, ["--schema", "shop"])
    assert "GRANT SELECT ON hidden TO tsdbadmin" in (caught.value.details or "")
    dump_schema("shop", place.uri, os.environ, ["--schema", "shop", "--exclude-table", "shop.hidden"])
    assert "CREATE TABLE shop.goods" in capfd.readouterr().out
    place.run("DROP SCHEMA shop CASCADE")  # the place is everyone's
