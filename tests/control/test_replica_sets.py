"""Read replica sets: made, changed and gone, and along with their service."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from ramet.backends.interface.values import NOT_FOLLOWING, Observation, Server
from ramet.backends.memory.volumes import KEPT_ENTRIES
from ramet.control import replica_sets as verbs
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.replica_health import submit_restart
from ramet.control.duties.upgrades import Upgrades
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.requests import ForkRequest
from ramet.control.services import delete_service, get_service, list_services, start_service, stop_service
from ramet.errors import Invalid, NotFound, WrongState
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.logs import LogEntry
from ramet.model.replica_set import ReplicaSet, replica_status, replica_status_reason
from ramet.model.service import Service, status_of
from ramet.model.status import ReplicaSetStatus, Status
from ramet.operations.procedure import Outcome, Procedure, Work
from ramet.operations.worker import Worker
from ramet.procedures.replicas import submit_restarts
from ramet.store import services
from tests import procedure_laws as laws
from tests.worlds import World


def request(nodes: int = 1) -> ReplicaSetRequest:
    return ReplicaSetRequest("reports", nodes, 500, 2)


def create(world: World, service: Service, nodes: int = 1) -> ReplicaSet:
    made = verbs.create_set(world.plane, world.project.id, service.id, request(nodes))
    world.worker.run_until_idle()
    return look(world, made)


def look(world: World, replica_set: ReplicaSet) -> ReplicaSet:
    found = verbs.list_sets(world.plane, world.project.id, replica_set.service_id)
    return next(each for each in found if each.id == replica_set.id)


def sets_of(world: World, service: Service) -> list[ReplicaSet]:
    return verbs.list_sets(world.plane, world.project.id, service.id)


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


def test_each_node_and_a_balancer_have_ports_of_their_own(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=3)
    ports = {service.port, made.port, *(node.port for node in made.nodes)}
    assert len(ports) == 5
    assert made.nodes[0].id == made.id
    assert world.backend.replicas.balancer_serves(made.id)
    with world.store.write() as tx:
        assert services.used_ports(tx) == ports


def test_sets_of_an_earlier_process_are_renewed_along_with_their_service(world: World) -> None:
    made = create(world, world.create(), nodes=2)
    world.backend.volumes[made.id].balancer_port = None
    later = Upgrades(world.plane)
    for _ in range(2):
        later.apply()
        assert [world.backend.volumes[node.id].renewals for node in made.nodes] == [1, 1]
    assert world.backend.replicas.balancer_serves(made.id)


def test_one_node_is_its_own_endpoint(world: World) -> None:
    made = create(world, world.create())
    assert made.port == made.nodes[0].port
    assert not world.backend.replicas.balancer_serves(made.id)


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


def test_it_pauses_and_resumes_with_its_service(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    paused = look(world, made)
    assert not any(world.backend.volumes[node.id].running for node in made.nodes)
    assert replica_status(paused) is ReplicaSetStatus.ERROR
    assert "paused" in (replica_status_reason(paused) or "")
    assert status_of(get_service(world.plane, world.project.id, made.id)) is Status.PAUSED
    start_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE
    assert all(world.backend.volumes[node.id].is_open for node in made.nodes)


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


def test_one_that_starts_with_its_resumed_service_is_resuming(world: World) -> None:
    service = world.create()
    made = create(world, service)
    with world.store.write() as tx:
        submit_restarts(tx, service.id)
    assert status_of(get_service(world.plane, world.project.id, made.id)) is Status.RESUMING
    world.worker.run_until_idle()
    assert status_of(get_service(world.plane, world.project.id, made.id)) is Status.READY
    submit_restart(world.store, look(world, made), "It fell.")
    assert status_of(get_service(world.plane, world.project.id, made.id)) is Status.UNSTABLE


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


def test_a_set_has_a_separate_pooler(world: World) -> None:
    service = world.create()
    made = create(world, service)
    verbs.enable_pooler(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    assert look(world, made).pooler_port not in (None, made.port, service.port)
    assert world.backend.poolers.serves(made.id)
    assert not world.backend.poolers.serves(service.id)
    verbs.disable_pooler(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    assert look(world, made).pooler_port is None
    assert not world.backend.poolers.serves(made.id)


def test_nothing_else_is_done_to_a_set_while_its_pooler_is_changed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    service = world.create()
    made = create(world, service)
    verbs.enable_pooler(world.plane, world.project.id, service.id, made.id)
    world.health.inspect()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE
    for change in (
        lambda: verbs.resize_set(world.plane, world.project.id, service.id, made.id, 1000, 4),
        lambda: verbs.delete_set(world.plane, world.project.id, service.id, made.id),
    ):
        with pytest.raises(WrongState, match="pooler"):
            change()
    world.worker.run_until_idle()
    world.health.inspect()
    assert "down" not in caplog.text
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE
    pooled = look(world, made)
    verbs.disable_pooler(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    assert not submit_restart(world.store, pooled, "what was seen before")


@pytest.mark.parametrize("part", ["node", "balancer", "pooler"])
def test_a_part_that_fell_is_put_right(world: World, part: str) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    verbs.enable_pooler(world.plane, world.project.id, service.id, made.id)
    world.worker.run_until_idle()
    volumes = world.backend.volumes
    if part == "node":
        world.backend.crash(made.nodes[1].id)
    elif part == "balancer":
        volumes[made.id].balancer_port = None
    else:
        volumes[made.id].pooler_port = None
    world.health.inspect()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ERROR
    assert replica_status_reason(look(world, made)) == "It is being started."
    world.worker.run_until_idle()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE
    assert volumes[made.nodes[1].id].running
    assert volumes[made.id].balancer_port == made.port
    assert volumes[made.id].pooler_port is not None


def test_a_node_that_does_not_follow_is_not_counted_as_serving_and_its_service_is_not_held(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    lost = world.backend.volumes[made.nodes[1].id]
    lost.follows = False
    world.health.inspect()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ERROR
    assert replica_status_reason(look(world, made)) == NOT_FOLLOWING
    with world.store.read() as tx:
        assert services.holders(tx, service.id) == []
    lost.follows = True
    world.health.inspect()
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE


def test_the_logs_of_services_and_of_all_nodes_are_kept_within_bounds(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    known = [world.backend.volumes[each] for each in (service.id, *(node.id for node in made.nodes))]
    for volume in known:
        volume.log += [LogEntry(world.plane.clock(), "LOG", str(n)) for n in range(KEPT_ENTRIES + 1)]
    maintain_servers(world.plane, world.plane.clock)
    assert [len(volume.log) for volume in known] == [KEPT_ENTRIES] * 3
    assert known[0].log[-1].message == str(KEPT_ENTRIES)


def test_a_set_is_active_only_when_every_node_follows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    observe = world.backend.servers.inspect
    looks: list[ReplicaSetStatus] = []

    def seen(server: Server) -> Observation:
        looks.append(replica_status(look(world, made)))
        return replace(observe(server), follows=len(looks) >= 3)

    monkeypatch.setattr(world.backend.servers, "inspect", seen)
    world.worker.run_until_idle()
    assert len(looks) >= 3
    assert set(looks) == {ReplicaSetStatus.CREATING}
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE


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


def test_a_service_is_not_paused_while_a_set_is_made(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert not world.backend.volumes[made.id].running
    assert look(world, made).ready_at is not None


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
