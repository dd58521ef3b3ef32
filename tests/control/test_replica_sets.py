"""Read replica sets: made, changed and gone, and along with their service."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.control import replica_sets as verbs
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, list_services, stop_service
from ramet.errors import Invalid, NotFound, WrongState
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.replica_set import replica_status, replica_status_reason
from ramet.model.service import status_of
from ramet.model.status import ReplicaSetStatus, Status
from ramet.operations.procedure import Outcome, Procedure, Work
from ramet.operations.worker import Worker
from ramet.store import services
from tests import procedure_laws as laws
from tests.control.replica_sets import create, look, request, sets_of
from tests.worlds import World


def test_a_set_is_creating_first_and_active_then(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    assert replica_status(made) is ReplicaSetStatus.CREATING
    world.worker.run_until_idle()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE


def test_it_shows_the_rows_of_its_service(world: World) -> None:
    service = world.create()
    made = create(world, service)
    world.backend.commit(service.id, "later")
    assert world.backend.values(made.id) == ["later"]


def test_the_service_stays_ready_during_the_change(world: World) -> None:
    service = world.create()
    verbs.create_set(world.plane, world.project.id, service.id, request())
    assert status_of(get_service(world.plane, world.project.id, service.id)) is Status.READY


def test_services_list_their_sets(world: World) -> None:
    first, second = world.create("first"), world.create("second")
    made = create(world, second)
    listed = {each.id: each.replica_sets for each in list_services(world.plane, world.project.id)}
    assert listed == {first.id: (), second.id: (made,)}


def test_a_set_is_found_as_a_service(world: World) -> None:
    service = world.create()
    made = create(world, service)
    found = get_service(world.plane, world.project.id, made.id)
    assert (found.id, found.port, status_of(found)) == (made.id, made.port, Status.READY)
    assert found.origin is not None
    assert (found.origin.service_id, found.origin.is_standby) == (service.id, True)
    assert found.replica_sets == ()


def test_a_set_of_another_project_is_not_found(world: World) -> None:
    made = create(world, world.create())
    other = world.projects.create_project("other", world.plane.clock())
    with pytest.raises(NotFound):
        get_service(world.plane, other.id, made.id)


def test_it_goes_with_its_service(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert world.backend.volumes == {}
    with pytest.raises(NotFound):
        get_service(world.plane, world.project.id, made.id)
    with world.store.write() as tx:
        assert services.used_ports(tx) == set()


def test_one_that_is_being_made_goes_with_its_service(world: World) -> None:
    service = world.create()
    verbs.create_set(world.plane, world.project.id, service.id, request())
    delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert world.backend.volumes == {}


def test_a_deleted_set_is_gone_and_its_service_is_not(world: World) -> None:
    service = world.create()
    made = create(world, service)
    verbs.delete_set(world.plane, world.project.id, service.id, made.id)
    verbs.delete_set(world.plane, world.project.id, service.id, made.id)
    assert replica_status(look(world, made)) is ReplicaSetStatus.DELETING
    world.worker.run_until_idle()
    assert sets_of(world, service) == []
    assert list(world.backend.volumes) == [service.id]


def test_one_that_is_being_made_can_be_called_off(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    verbs.delete_set(world.plane, world.project.id, service.id, made.id)
    assert replica_status(look(world, made)) is ReplicaSetStatus.DELETING
    assert status_of(get_service(world.plane, world.project.id, made.id)) is Status.DELETING
    world.worker.run_until_idle()
    assert list(world.backend.volumes) == [service.id]
    assert sets_of(world, service) == []


def test_one_that_is_called_off_as_it_becomes_active_is_deleted_all_the_same(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())

    def deleted_as_it_ends(create: Procedure) -> Procedure:
        def publish(work: Work[Any]) -> Outcome:
            outcome = create.steps["publish"](work)
            verbs.delete_set(world.plane, world.project.id, service.id, made.id)
            return outcome

        return replace(create, steps={**create.steps, "publish": publish})

    procedures = laws.rewritten(world.procedures, "create_replicas", deleted_as_it_ends)
    Worker(world.store, procedures).run_until_idle()
    assert list(world.backend.volumes) == [service.id]
    assert sets_of(world, service) == []


def test_a_resized_set_has_the_new_size(world: World) -> None:
    service = world.create()
    made = create(world, service)
    resized = verbs.resize_set(world.plane, world.project.id, service.id, made.id, "1000", "4")
    assert replica_status(resized) is ReplicaSetStatus.RESIZING
    world.worker.run_until_idle()
    after = look(world, made)
    assert (after.size.cpu_millis, after.size.memory_gbs) == (1000, 4)
    assert replica_status(after) is ReplicaSetStatus.ACTIVE


def test_a_set_has_a_separate_environment(world: World) -> None:
    service = world.create()
    made = create(world, service)
    verbs.set_environment(world.plane, world.project.id, service.id, made.id, Environment.PROD)
    assert look(world, made).environment is Environment.PROD
    assert get_service(world.plane, world.project.id, service.id).environment is Environment.DEV


def test_one_that_cannot_be_made_says_why_and_is_gone(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    failing = laws.rewritten(world.procedures, "create_replicas", lambda p: laws.failing(p, "publish", after=True))
    Worker(world.store, failing).run_until_idle()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ERROR
    assert "Injected" in (replica_status_reason(look(world, made)) or "")
    assert list(world.backend.volumes) == [service.id]


def test_a_fork_has_no_sets(world: World) -> None:
    service = world.create()
    create(world, service)
    assert world.fork(service, ForkRequest(ForkStrategy.NOW)).replica_sets == ()


@pytest.mark.parametrize("nodes", [0, -1, 5])
def test_too_many_nodes_are_refused_with_the_bound(world: World, nodes: int) -> None:
    service = world.create()
    with pytest.raises(Invalid, match="between 1 and 4"):
        verbs.create_set(world.plane, world.project.id, service.id, request(nodes))


def test_a_size_must_be_given(world: World) -> None:
    service = world.create()
    with pytest.raises(Invalid, match="shared"):
        verbs.create_set(world.plane, world.project.id, service.id, ReplicaSetRequest("reports", 1, "shared", "shared"))


def test_a_paused_service_gets_no_set(world: World) -> None:
    service = world.create()
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    with pytest.raises(WrongState, match="PAUSED"):
        verbs.create_set(world.plane, world.project.id, service.id, request())


def test_a_set_of_a_paused_service_can_be_deleted(world: World) -> None:
    service = world.create()
    made = create(world, service)
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    verbs.delete_set(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    assert sets_of(world, service) == []


def test_a_set_is_found_only_under_its_own_service(world: World) -> None:
    first, second = world.create(), world.create()
    made = create(world, first)
    with pytest.raises(NotFound):
        verbs.delete_set(world.plane, world.project.id, second.id, made.id)


def test_listing_asks_the_store_as_often_for_many_services_as_for_one(world: World) -> None:
    create(world, world.create())
    few = queries_of_a_listing(world)
    for _ in range(3):
        create(world, world.create())
    assert queries_of_a_listing(world) == few <= 4


def queries_of_a_listing(world: World) -> int:
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    sa.event.listen(world.store.engine, "before_cursor_execute", note)
    try:
        list_services(world.plane, world.project.id)
    finally:
        sa.event.remove(world.store.engine, "before_cursor_execute", note)
    return len(asked)
