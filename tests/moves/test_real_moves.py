"""A service moves between two Ramets with real servers, while clients write: no acknowledged row is lost."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.instance import Instance, connect, running_instance
from prove.acknowledged import Writers, content_of, read_notes
from ramet.api.schemas.moves import Move
from ramet.client import Secret
from ramet.model.environment import Environment
from ramet.model.status import OperationStatus

pytestmark = pytest.mark.timeout(900)
_ROLE = """
CREATE ROLE app LOGIN PASSWORD 'of the app';
CREATE TABLE notes (n int);
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
        moved = under_load(here, there, made.service_id, made.endpoint.port, password, tmp_path / "first")
        kept, at = client.get_service(made.service_id), moved.endpoint
        assert (kept.name, kept.paused) == (moved.kept_as, True)
        assert at is not None
        found = other.get_service(str(moved.target_service_id))
        assert (found.name, found.metadata.environment, found.metadata.following) == ("shop", Environment.PROD, None)
        with connect(at.port, "of the app", user="app") as connection:
            assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        with connect(at.port, password) as connection:
            movers = "SELECT count(*) FROM pg_roles WHERE rolreplication AND rolname <> 'ramet'"
            assert connection.execute(movers).fetchone() == (0,)
        back = under_load(there, here, found.service_id, at.port, password, tmp_path / "second")
        assert back.target_service_id != made.service_id
        client.delete_service(made.service_id)
        client.wait_deleted(made.service_id)
        other.start_service(found.service_id)  # where it was stopped, all of it is there, too
        other.wait_ready(found.service_id)
        assert rows_at(at.port, password) == rows_at(back.endpoint.port, password)  # type: ignore[union-attr]
        with connect(at.port, password) as connection:
            assert connection.execute(movers).fetchone() == (0,)
        other.delete_service(found.service_id)


def under_load(here: Instance, there: Instance, service_id: str, port: int, password: str, notes: Path) -> Move:
    """Move a service while clients write; see that all that was confirmed is there, and nothing that was not sent."""
    writers, key = Writers(port, password, notes), there.credentials
    before = rows_at(port, password)
    writers.first = 1 + max((n for _, n in before), default=0)
    with here.client() as client:
        writers.start()
        url = key["base_url"].removesuffix("/public/api/v1")
        name = client.get_service(service_id).name
        begun = client.move_service(service_id, url, key["public_key"], Secret(key["secret_key"]), confirm=name)
        moved = client.wait_moved(service_id, begun.move_id, 300)
    writers.stop()
    assert (moved.status, moved.error, writers.faults) == (OperationStatus.SUCCEEDED, None, [])
    with pytest.raises(psycopg.OperationalError):
        connect(port, password, connect_timeout="2").close()
    noted = read_notes(notes)
    assert moved.endpoint is not None
    rows = rows_at(moved.endpoint.port, password)
    assert len(noted.done) > 10
    assert set(noted.done) | set(before) <= set(rows) <= noted.sent | set(before)
    assert all(content == content_of(one) for one, content in rows.items())
    return moved


def rows_at(port: int, password: str) -> dict[tuple[int, int], str]:
    """Return the rows of the ledger, none where there is no ledger yet."""
    with connect(port, password) as connection:
        if connection.execute("SELECT to_regclass('ledger')").fetchone() == (None,):
            return {}
        return {(w, n): content for w, n, content in connection.execute("SELECT * FROM ledger").fetchall()}
