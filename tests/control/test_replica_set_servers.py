"""The servers of read replica sets: nodes, balancers and poolers, and when a set is ACTIVE."""

from dataclasses import replace

import pytest

from ramet.backends.interface.values import NOT_FOLLOWING, Maintenance, Observation, Server
from ramet.backends.memory.replicas import MemoryReplicas
from ramet.backends.memory.servers import MemoryServers
from ramet.backends.memory.volumes import KEPT_ENTRIES
from ramet.control import replica_sets as verbs
from ramet.control.duties.health import Health
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.refresh import Refresh
from ramet.control.duties.replica_health import submit_restart
from ramet.control.services import get_service, set_environment, start_service, stop_service
from ramet.errors import Exhausted, Failed, WrongState
from ramet.model.environment import Environment
from ramet.model.logs import LogEntry
from ramet.model.replica_set import replica_status, replica_status_reason
from ramet.model.service import status_of
from ramet.model.status import ReplicaSetStatus, Status
from ramet.procedures.replicas import submit_restarts
from ramet.store import services
from tests.control.replica_sets import create, look, request
from tests.worlds import World


def test_each_node_and_a_balancer_have_ports_of_their_own(world: World) -> None:
    service = world.create()
    made = create(world, service, nodes=3)
    ports = {service.port, made.port, *(node.port for node in made.nodes)}
    assert len(ports) == 5
    assert made.nodes[0].id == made.id
    assert world.backend.replicas.balancer_serves(made.id)
    with world.store.write() as tx:
        assert services.used_ports(tx) == ports


def test_sets_of_an_earlier_process_are_refreshed_along_with_their_service(world: World) -> None:
    made = create(world, world.create(), nodes=2)
    world.backend.volumes[made.id].balancer_port = None
    later = Refresh(world.plane)
    for _ in range(2):
        later.apply()
        assert [world.backend.volumes[node.id].refreshes for node in made.nodes] == [1, 1]
    assert world.backend.replicas.balancer_serves(made.id)


def test_one_node_is_its_own_endpoint(world: World) -> None:
    made = create(world, world.create())
    assert made.port == made.nodes[0].port
    assert not world.backend.replicas.balancer_serves(made.id)


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


@pytest.mark.parametrize("kept", [0, 1])
def test_nodes_whose_volumes_are_gone_are_copied_again_as_soon_as_there_is_room(
    world: World, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    service = world.create()
    made = create(world, service, nodes=2)
    left = [world.backend.volumes[node.id] for node in made.nodes[:kept]]

    def full(_replicas: MemoryReplicas, _server: Server) -> bool:
        raise Exhausted("NOT_ENOUGH_DISK", "The storage has 100 MiB left, and this needs 128 MiB")

    for node in made.nodes[kept:]:
        world.backend.servers.destroy(node.id)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryReplicas, "create", full)
        for _ in range(2):
            inspect_again(world)
            assert "100 MiB left" in (look(world, made).down_reason or "")
    inspect_again(world)
    assert replica_status(look(world, made)) is ReplicaSetStatus.ACTIVE
    assert [world.backend.volumes[node.id] for node in made.nodes[:kept]] == left


@pytest.mark.parametrize(("lost", "removed"), [([0], []), ([1], [1]), ([0, 1], [0, 1])])
def test_a_copy_of_lost_nodes_that_is_given_up_leaves_nothing_of_these_but_the_endpoint_that_others_serve(
    world: World, monkeypatch: pytest.MonkeyPatch, lost: list[int], removed: list[int]
) -> None:
    made = create(world, world.create(), nodes=2)
    for number in lost:
        world.backend.servers.destroy(made.nodes[number].id)
    destroyed: list[str] = []

    def never_ready(_replicas: MemoryReplicas, _server: Server) -> bool:
        raise Failed("SNAPSHOT_LOST", "The snapshot of the primary is gone")

    def destroy(_servers: MemoryServers, service_id: str) -> None:
        destroyed.append(service_id)

    monkeypatch.setattr(MemoryReplicas, "create", never_ready)
    monkeypatch.setattr(MemoryServers, "destroy", destroy)
    inspect_again(world)
    assert set(destroyed) == {made.nodes[number].id for number in removed}
    assert all(world.backend.volumes[node.id].running for number, node in enumerate(made.nodes) if number not in lost)


def inspect_again(world: World) -> None:
    """Inspect all as a process that has restarted nothing yet, and carry out what that submits."""
    Health(world.plane).inspect()
    world.worker.run_until_idle()


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


def test_a_fork_and_its_set_are_maintained_as_those_of_a_dev_fork_while_the_fork_is_dev(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Server] = []

    def noting(server: Server, *_: object) -> Maintenance:
        seen.append(server)
        return Maintenance(None)

    def dev_forks() -> set[str]:
        seen.clear()
        with monkeypatch.context() as patch:
            patch.setattr(world.backend.servers, "maintain", noting)
            maintain_servers(world.plane, world.plane.clock)
        return {one.service_id for one in seen if one.is_dev_fork}

    parent = world.create()
    fork = world.fork(parent)
    made = create(world, fork)
    create(world, parent)
    assert fork.environment is Environment.DEV
    assert dev_forks() == {fork.id, made.id}
    set_environment(world.plane, world.project.id, fork.id, Environment.PROD)
    assert dev_forks() == set()


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


def test_a_service_is_not_paused_while_a_set_is_made(world: World) -> None:
    service = world.create()
    made = verbs.create_set(world.plane, world.project.id, service.id, request())
    stop_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    assert not world.backend.volumes[made.id].running
    assert look(world, made).ready_at is not None
