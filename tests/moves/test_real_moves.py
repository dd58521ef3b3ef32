"""A service moves between two Ramets with real servers, while clients write: no acknowledged row is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.instance import Instance, connect, running_instance
from ramet.model.environment import Environment
from tests.moves.loads import rows_at, under_load

pytestmark = pytest.mark.timeout(900)
_ROLE = """
CREATE ROLE app LOGIN PASSWORD 'of the app';
CREATE TABLE notes (n int);
CREATE UNLOGGED TABLE sessions (n int);
GRANT SELECT ON notes TO app;
"""


@pytest.fixture(scope="module")
def ramets() -> Iterator[tuple[Instance, Instance]]:
    """Two installations on this host, each with its own storage and endpoints."""
    with running_instance() as here, running_instance() as there:
        yield here, there


def test_a_service_that_is_written_to_moves_and_moves_back(ramets: tuple[Instance, Instance], tmp_path: Path) -> None:
    here, there = ramets
    with here.client() as client, there.client() as other:
        made = client.create_service("shop", environment=Environment.PROD)
        password = str(made.initial_password)
        client.wait_ready(made.service_id)
        with connect(made.endpoint.port, password) as connection:
            connection.execute(_ROLE)
        moved = under_load(here, there, made.service_id, made.endpoint, password, tmp_path / "first")
        kept, at = client.get_service(made.service_id), moved.endpoint
        assert (kept.name, kept.paused) == (moved.kept_as, True)
        assert any(note.startswith("Unlogged tables are empty there: tsdb.public.sessions.") for note in moved.notes)
        assert at is not None
        found = other.get_service(str(moved.target_service_id))
        assert (found.name, found.metadata.environment, found.metadata.following) == ("shop", Environment.PROD, None)
        with connect(at.port, "of the app", user="app") as connection:
            assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        with connect(at.port, password) as connection:
            movers = "SELECT count(*) FROM pg_roles WHERE rolreplication AND rolname <> 'ramet'"
            assert connection.execute(movers).fetchone() == (0,)
        back = under_load(there, here, found.service_id, at, password, tmp_path / "second")
        assert back.target_service_id != made.service_id
        assert back.endpoint is not None
        client.delete_service(made.service_id)
        client.wait_deleted(made.service_id)
        other.start_service(found.service_id)  # where it was stopped, all of it is there, too
        other.wait_ready(found.service_id)
        assert rows_at(at, password) == rows_at(back.endpoint, password)
        with connect(at.port, password) as connection:
            assert connection.execute(movers).fetchone() == (0,)
        other.delete_service(found.service_id)
