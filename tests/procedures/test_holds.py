"""How long the parent of a copy is held: until nothing of it is needed any more."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ramet.backends.interface.servers import SERVER_ENDING
from ramet.backends.interface.values import Progress
from ramet.control import restore
from ramet.control.duties.drills import submit_due_drill
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, stop_service
from ramet.errors import Failed, NotFound, Unavailable
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.status import OperationStatus
from ramet.restores.verbs import RestoreRequest, restore_service
from ramet.store import operations, services
from tests.worlds import World, fork_service, make_world


def _fork(world: World, parent: str) -> None:
    fork_service(world.plane, world.project.id, parent, ForkRequest(ForkStrategy.NOW))


def _drill(world: World, _parent: str) -> None:
    submit_due_drill(world.plane, timedelta(0))


def _restore(world: World, parent: str) -> None:
    taken = restore.take_snapshot(world.plane, world.project.id, parent, "good")
    world.worker.run_until_idle()
    restore_service(world.plane, world.project.id, parent, RestoreRequest(snapshot=taken.id))


@pytest.mark.parametrize("needs_parent", [False, True])
@pytest.mark.parametrize("submit", [_fork, _drill, _restore])
def test_a_parent_is_released_when_it_is_captured_unless_the_recovery_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submit: Callable[[World, str], None], needs_parent: bool
) -> None:
    world = make_world(tmp_path)
    parent = world.create()
    world.backend.commit(parent.id, "row")
    world.backend.recoveries_need_parent = needs_parent
    held: dict[str, bool] = {}

    def noting(step: str, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with world.store.read() as tx:
            held.setdefault(step, bool(services.holders(tx, parent.id)))
        return act(*args, **options)

    submit(world, parent.id)
    backend = world.backend
    acts: list[tuple[Any, str, str]] = [
        (backend.restore, "capture", "capture"),
        (backend.restore, "recover", "recover"),
        (backend.servers, "start", "after"),
        (backend.replacements, "leave_timeline", "after"),
    ]
    for part, name, step in acts:
        monkeypatch.setattr(part, name, partial(noting, step, getattr(part, name)))
    world.worker.run_until_idle()
    assert held == {"capture": True, "recover": needs_parent, "after": False}
    assert get_service(world.plane, world.project.id, parent.id).down_reason is None


def test_a_drill_whose_recovery_needs_its_service_gives_way_to_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    parent = world.create()
    world.backend.recoveries_need_parent = True

    def recover(*_: object) -> Progress:
        if looked:
            raise Failed("JOB_FAILED", "It was not given up")
        looked.append(delete_service(world.plane, world.project.id, parent.id).id)
        return Progress(None, "no node has room")

    looked: list[str] = []
    _drill(world, parent.id)
    monkeypatch.setattr(world.backend.restore, "recover", recover)
    world.worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, parent.id)
    assert world.backend.volumes == {}
    assert _end_of_drill(world, parent.id) == (OperationStatus.SUCCEEDED, None)


def test_a_drill_of_a_service_whose_server_accepts_no_connections_gives_way_to_a_deletion(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    parent = world.create()
    world.backend.crash(parent.id)
    _drill(world, parent.id)
    world.worker.run_until_idle(horizon_seconds=0.1)
    with world.store.read() as tx:
        assert services.holders(tx, parent.id) != []
    delete_service(world.plane, world.project.id, parent.id)
    world.worker.run_until_idle()
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, parent.id)
    assert _end_of_drill(world, parent.id) == (OperationStatus.SUCCEEDED, None)


def test_a_drill_that_gives_way_ends_also_when_what_waited_is_canceled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    parent = world.create()
    world.backend.recoveries_need_parent = True
    destroy, waiting = world.backend.servers.destroy, list[str]()

    def recover(*_: object) -> Progress:
        if waiting:
            raise Failed("VOLUME_LOST", "It recovers what was destroyed")
        stop_service(world.plane, world.project.id, parent.id)
        activity = get_service(world.plane, world.project.id, parent.id).activity
        waiting.append(activity.operation_id if activity else "")
        return Progress(None, "no node has room")

    def destroy_slowly(service_id: str) -> None:
        destroy(service_id)
        with world.store.write() as tx:
            is_canceled = operations.cancel(tx, waiting[0])
        if is_canceled:
            raise Unavailable(SERVER_ENDING, "It is still being removed")

    _drill(world, parent.id)
    monkeypatch.setattr(world.backend.restore, "recover", recover)
    monkeypatch.setattr(world.backend.servers, "destroy", destroy_slowly)
    world.worker.run_until_idle()
    assert _end_of_drill(world, parent.id) == (OperationStatus.SUCCEEDED, None)
    assert list(world.backend.volumes) == [parent.id]
    with world.store.read() as tx:
        assert services.holders(tx, parent.id) == []


def _end_of_drill(world: World, service_id: str) -> tuple[OperationStatus, str | None]:
    with world.store.read() as tx:
        (drill,) = [one for one in operations.of_subject(tx, service_id) if one.procedure == ProcedureName.DRILL]
    return drill.status, drill.error
