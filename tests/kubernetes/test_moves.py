"""A service moves from a machine to the cluster and back, while clients write: no acknowledged row is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.instance import Instance, connect, running_instance
from harness.kubernetes.layout import HOST_ADDRESS
from ramet.api.schemas.moves import Move
from ramet.api.schemas.shared import Endpoint
from ramet.model.environment import Environment
from tests.kubernetes.ramets import objects_of, running_in_cluster
from tests.moves.loads import rows_at, under_load

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(900)]
_MAJOR = 15
_SQL = (
    "CREATE ROLE app LOGIN PASSWORD 'of the app'",
    "CREATE TABLE notes (n int)",
    "GRANT SELECT ON notes TO app",
    "CREATE DATABASE other",
)
_POWERFUL = "SELECT rolname FROM pg_roles WHERE rolsuper OR rolreplication ORDER BY 1"
_ROLES = "SELECT rolname FROM pg_roles WHERE rolcanlogin ORDER BY 1"
_OWNERLESS = """
SELECT relname FROM pg_class WHERE relowner NOT IN (SELECT oid FROM pg_roles)
UNION ALL SELECT proname FROM pg_proc WHERE proowner NOT IN (SELECT oid FROM pg_roles)
"""


@pytest.fixture(scope="module")
def ramets() -> Iterator[tuple[Instance, Instance, str]]:
    """A Ramet on this machine, whose services pods can reach, and one with services in the cluster."""
    with running_instance(RAMET_ENDPOINT_HOST=HOST_ADDRESS) as machine, running_in_cluster() as (cluster, namespace):
        yield machine, cluster, namespace


def test_services_that_are_written_to_move_between_a_machine_and_the_cluster(
    ramets: tuple[Instance, Instance, str], tmp_path: Path
) -> None:
    """One is made on the machine, moves there and back; the other is made in the cluster, and moves to the machine."""
    machine, cluster, namespace = ramets
    with machine.client() as here, cluster.client() as there:
        native = there.create_service("native", environment=Environment.PROD)
        made = here.create_service("shop", environment=Environment.PROD, pg_major=_MAJOR)
        password, at = str(made.initial_password), here.wait_ready(made.service_id).endpoint
        assert at is not None
        execute(at, password, *_SQL)
        moved = under_load(machine, cluster, made.service_id, at, password, tmp_path / "first")
        at, found = at_of(moved), there.get_service(str(moved.target_service_id))
        assert (found.name, found.metadata.environment, found.metadata.following) == ("shop", Environment.PROD, None)
        assert execute(at, "of the app", "SELECT count(*) FROM notes", user="app") == [(0,)]
        assert execute(at, password, _POWERFUL, dbname="other") == [("postgres",), ("ramet",), ("streaming_replica",)]
        back = under_load(cluster, machine, found.service_id, at, password, tmp_path / "second")
        kept = rows_at(at_of(back), password)
        assert execute(at_of(back), password, _POWERFUL) == [("ramet",)]
        there.start_service(found.service_id)
        there.wait_ready(found.service_id)
        assert rows_at(at, password) == kept
        there.delete_service(found.service_id)
        there.wait_deleted(found.service_id)
        assert objects_of(found.service_id, namespace) == []
        password, at = str(native.initial_password), there.get_service(native.service_id).endpoint
        assert at is not None
        execute(at, password, *_SQL)
        home = under_load(cluster, machine, native.service_id, at, password, tmp_path / "third")
        assert execute(at_of(home), "of the app", "SELECT count(*) FROM notes", user="app") == [(0,)]
        assert execute(at_of(home), password, _ROLES) == [("app",), ("pg_ramet_pooler",), ("ramet",), ("tsdbadmin",)]
        assert execute(at_of(home), password, _OWNERLESS) == []


def execute(at: Endpoint, password: str, *statements: str, **parameters: str) -> list[tuple[Any, ...]]:
    """Execute statements; return the rows of the last one."""
    with connect(at.port, password, host=at.host, **parameters) as connection:
        found = [connection.execute(one.encode()) for one in statements][-1]
        return found.fetchall() if found.description else []


def at_of(moved: Move) -> Endpoint:
    assert moved.endpoint is not None
    return moved.endpoint
