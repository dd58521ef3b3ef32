"""What a release stored, the next one finishes: operations of release 0.1 at each of their steps, frozen as JSON.

Each case of tests/procedures/stored/ holds the rows of a store of that release (schema 0003) in which one operation
waits for its step, and what the memory backend held then. Its columns that are null are left out.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.volumes import Row, Volume
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import status_of
from ramet.model.status import OperationStatus
from ramet.procedures.state import STATES
from ramet.store import operations, replica_sets, services
from ramet.store.migrate import configuration
from ramet.store.operations import submit
from ramet.store.tables import hold, operation
from tests.worlds import World, make_world

RELEASED_SCHEMA = "0003"
Case = dict[str, Any]
CASES: list[Case] = [
    case for path in sorted((Path(__file__).parent / "stored").iterdir()) for case in json.loads(path.read_text())
]


def operation_of(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in case["tables"]["operation"] if row["id"] == case["operation"])
    return found


def name_of(case: Case) -> str:
    procedure = operation_of(case)["procedure"]
    variant = "" if case["case"] == procedure else f" {case['case']}"
    return f"{procedure}{variant}, {case['step']}"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store of the released schema."""
    path = tmp_path_factory.mktemp("released") / "ramet.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, RELEASED_SCHEMA)
    engine.dispose()
    return path


def insert_rows(path: Path, case: Case) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in case["tables"].items():
            for row in rows:
                values = ", ".join(f":{column}" for column in row)
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})", row)


def volume_of(kept: dict[str, Any]) -> Volume:
    rows = [Row(datetime.fromisoformat(at), value) for at, value in kept["values"]]
    return Volume(
        rows=rows,
        snapshots={snapshot_id: tuple(rows[:count]) for snapshot_id, count in kept["snapshots"].items()},
        running=kept["running"],
        is_open=kept["is_open"],
        secured=kept["secured"],
        pooler_port=kept["pooler_port"],
        balancer_port=kept["balancer_port"],
        pg_major=kept.get("pg_major"),
        is_prepared=kept.get("is_prepared", False),
        has_data=kept.get("has_data", True),
        timeline=kept.get("timeline", 1),
        last_timeline=kept.get("last_timeline", 1),
    )


def fill_archive(backend: MemoryBackend, service_id: str, kept: dict[str, Any]) -> None:
    archive, rows = backend.archive, tuple(Row(datetime.fromisoformat(at), value) for at, value in kept["rows"])
    archive.location = "memory://archive"
    archive.bases[service_id] = [datetime.fromisoformat(taken_at) for taken_at in kept["bases"]]
    archive.rows[service_id] = rows
    if kept["fetched"]:
        archive.memory.fetched[service_id] = rows


@pytest.fixture(params=CASES, ids=name_of)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def world(tmp_path: Path, case: Case, empty_store: Path) -> Iterator[World]:
    """Today's code over the store and the servers that the case describes."""
    insert_rows(Path(shutil.copy(empty_store, tmp_path)), case)
    backend = MemoryBackend()
    backend.volumes = {service_id: volume_of(kept) for service_id, kept in case["volumes"].items()}
    for service_id, kept in case.get("archive", {}).items():
        fill_archive(backend, service_id, kept)
    if operation_of(case)["step"] != "fetch":
        backend.sources.fetched.add(case["subject"])
    made = make_world(tmp_path, backend)
    with closing(made.store):
        yield made


@pytest.mark.slow
def test_a_stored_operation_is_finished(world: World, case: Case) -> None:
    world.worker.run_until_idle(horizon_seconds=0.15)
    with world.store.read() as tx:
        row = operations.get(tx, case["operation"])
        claimed = [service.id for service in services.live_services(tx) if service.activity is not None]
        held = tx.execute(hold.select()).all()
        found = services.get_service(tx, case["subject"])
    assert row is not None
    was_undone = operation_of(case)["status"] == "UNDOING"
    assert (row.status, row.error) == (
        (OperationStatus.FAILED, operation_of(case)["error"]) if was_undone else (OperationStatus.SUCCEEDED, None)
    )
    assert (claimed, held, without_owner(world)) == ([], [], set())
    if case["service_status"] is not None and found is not None:
        assert status_of(found) == case["service_status"]
    if row.procedure == ProcedureName.SET_WAL_LEVEL:
        assert world.backend.volumes[case["subject"]].replicates


def without_owner(world: World) -> set[str]:
    with world.store.read() as tx:
        alive, sets = services.live_services(tx), replica_sets.live_sets(tx)
    return set(world.backend.volumes) - {s.id for s in alive} - {node.id for each in sets for node in each.nodes}


def test_there_is_a_stored_operation_at_each_step(world_of_today: World) -> None:
    stored = {(operation_of(case)["procedure"], operation_of(case)["step"]) for case in CASES}
    steps = {(procedure.name, step) for procedure in world_of_today.procedures for step in procedure.steps}
    assert steps <= stored


@pytest.fixture
def world_of_today(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path)
    with closing(made.store):
        yield made


UNREADABLE = {
    operation_of(case)["procedure"]: case
    for case in CASES
    if STATES[ProcedureName(operation_of(case)["procedure"])].__struct_fields__
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE.keys(), indirect=True)
def test_an_operation_whose_stored_state_cannot_be_read_fails_with_that_reason(world: World, case: Case) -> None:
    procedure, operation_id = operation_of(case)["procedure"], case["operation"]
    state = {field: {"not": "understood"} for field in STATES[ProcedureName(procedure)].__struct_fields__}
    with world.store.write() as tx:
        running = {"state": state, "status": "RUNNING", "step": SPECS[procedure].first_step, "done_steps": []}
        tx.execute(operation.update().where(operation.c.id == operation_id).values(running))
    world.worker.run_until_idle(horizon_seconds=0.15)
    with world.store.read() as tx:
        row = operations.get(tx, operation_id)
        assert not tx.execute(hold.select()).all()
        assert not [service for service in services.live_services(tx) if service.activity is not None]
        assert not [each for each in replica_sets.live_sets(tx) if each.activity is not None]
    assert row is not None
    assert row.status is OperationStatus.FAILED
    assert (row.error or "").startswith(f"The stored state of operation {operation_id} cannot be read: Expected ")


def test_fields_of_a_stored_state_that_this_release_does_not_know_stay(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with closing(world.store):
        service = world.create()
        state = {"statistics": None, "from_a_later_release": [1]}
        with world.store.write() as tx:
            submit(tx, "optimize", "analyze", service.id, state)
        world.worker.run_until_idle()
        with world.store.read() as tx:
            optimized = operations.of_subject(tx, service.id)[0]
    assert optimized.status is OperationStatus.SUCCEEDED
    assert (optimized.state["statistics"], optimized.state["from_a_later_release"]) == ("collected", [1])
