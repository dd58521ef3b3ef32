"""The roles that `ramet db create role` makes, on a real server."""

from collections.abc import Iterator

import pytest

from ramet.backends.base import Server
from ramet.backends.local.installation import find_installations
from ramet.backends.local.servers import Servers
from ramet.cli.roles import NewRole, make_role
from ramet.errors import Failed
from ramet.model.credentials import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server


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


@pytest.fixture(scope="module", params=[one.major for one in find_installations().found])
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    password = new_password()
    server = new_server(servers, password, pg_major=request.param)
    boot(servers, server)
    servers.secure(server, newborn=True, quiet=False)
    servers.open(server)
    yield Place(server, password)
    servers.remove(server.service_id, 10)


@pytest.mark.parametrize(("name", "timeout"), [("", None), ("slow", "soon"), ("tsdbadmin", None)])
def test_what_fails_shows_no_part_of_the_verifier(place: Place, name: str, timeout: str | None) -> None:
    with pytest.raises(Failed) as caught:
        make_role(place.uri, NewRole(name, new_password(), statement_timeout=timeout))
    told = f"{caught.value.message} {caught.value.details}"
    assert "SCRAM" not in told
    assert "CREATE ROLE" not in told
    assert caught.value.details
