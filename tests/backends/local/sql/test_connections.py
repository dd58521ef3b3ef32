"""How the platform enters a copy of a server elsewhere, which has the superuser of that."""

from collections.abc import Iterator

import psycopg
import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, foreign
from ramet.errors import Unavailable
from tests.backends.local.hosts import boot, new_server, restart
from tests.sources import MAJORS

_PRELOADS = "ALTER {} SET session_preload_libraries = 'none'"
_REFUSES = """
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no sessions here''; END';
CREATE EVENT TRIGGER refuse ON login EXECUTE FUNCTION refuse();
ALTER EVENT TRIGGER refuse ENABLE ALWAYS
"""


@pytest.fixture
def server(instances: Instances) -> Iterator[Server]:
    """A server with another superuser, who is taken for that of the source."""
    made = new_server(instances, pg_major=max(MAJORS))
    boot(instances, made)
    paths = instances.paths(made.service_id)
    with connections.connect(paths) as connection:
        connection.execute("CREATE ROLE x SUPERUSER LOGIN")
    instances.stop(made, 30)
    foreign.write(paths, foreign.Foreign("x", "shop"))
    restart(instances, made)
    yield made
    instances.remove(made.service_id, 10)


@pytest.mark.parametrize("statements", [_PRELOADS.format("ROLE x"), _PRELOADS.format("DATABASE postgres"), _REFUSES])
def test_a_copy_is_entered_whatever_its_source_does_when_a_session_begins(
    instances: Instances, server: Server, statements: str
) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths, search_path="public") as connection:
        connection.execute(statements.encode())
    with connections.connect(paths, "template1") as connection:
        assert connection.execute("SELECT session_user").fetchone() == ("x",)


def test_a_copy_without_the_platforms_database_has_the_superuser_of_its_source(
    instances: Instances, server: Server
) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths, "template1") as connection:
        connection.execute("DROP DATABASE postgres")
    with pytest.raises(Unavailable, match="does not accept") as caught, connections.connect(paths, "template1"):
        pass
    assert 'database "postgres" does not exist' in str(caught.value.details)


def test_what_a_statement_says_of_another_server_is_not_said_of_this_one(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)
    elsewhere = f"host={paths.sockets} port=1 dbname=none"
    statement = f"CREATE SUBSCRIPTION other CONNECTION '{elsewhere}' PUBLICATION other WITH (create_slot = false)"
    with pytest.raises(psycopg.OperationalError, match="could not connect to the publisher"):  # noqa: SIM117
        with connections.connect(paths) as connection:
            connection.execute(statement.encode())
    with pytest.raises(psycopg.OperationalError, match=r"PGSQL\.1"), connections.connect(paths):
        psycopg.connect(elsewhere)


def test_a_session_that_its_server_ends_is_unavailable(instances: Instances, server: Server) -> None:
    paths = instances.paths(server.service_id)

    def is_ended(pid: int) -> object:
        with connections.connect(paths) as other:
            return connections.value(other, "SELECT pg_terminate_backend(%s, 10000)", pid)

    with pytest.raises(Unavailable, match="does not accept"), connections.connect(paths) as connection:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(Unavailable, match="does not accept"), connections.connect(paths) as connection:
        connection.execute("SELECT %s", (is_ended(connection.info.backend_pid),))
