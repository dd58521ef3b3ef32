"""Forking, as the control plane decides and records it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.control import restore, services
from ramet.control.forks import fork_services
from ramet.control.placement import Placement
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.errors import Exhausted, Failed, Invalid, NotFound, WrongState
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service, status_of
from ramet.model.size import Size
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from ramet.store.tables import snapshot
from tests.worlds import World, fork_service

NOW = ForkRequest(ForkStrategy.NOW)


def ids(world: World) -> list[str]:
    return [service.id for service in services.list_services(world.plane, world.project.id)]


def test_an_accepted_fork_is_queued_and_carries_all_that_it_inherits(world: World) -> None:
    parent = world.create()
    accepted = fork_service(world.plane, world.project.id, parent.id, NOW)
    fork = accepted.service
    assert status_of(fork) is Status.QUEUED
    assert fork.name == "shop-fork"
    assert (fork.service_type, fork.region_code, fork.size) == (parent.service_type, parent.region_code, parent.size)
    assert fork.environment is Environment.DEV
    assert fork.port != parent.port
    assert fork.origin is not None
    assert (fork.origin.project_id, fork.origin.service_id) == (parent.project_id, parent.id)
    assert accepted.initial_password is not None
    assert len(accepted.initial_password.reveal()) >= 20


def test_there_has_to_be_room_for_all_forks_of_a_request_that_are_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, counts = world.create(), list[int]()
    monkeypatch.setattr(world.backend.restore, "check_fork", lambda _source, _as_of, count: counts.append(count))

    def fork_three() -> list[str]:
        made = fork_services(world.plane, world.project.id, parent.id, NOW, 3, "key")
        return [one.service.id for one in made]

    first = fork_three()
    world.worker.run_until_idle()
    services.delete_service(world.plane, world.project.id, first[1])
    world.worker.run_until_idle()
    again = fork_three()
    assert counts == [3, 1]
    assert (first[0], first[2]) == (again[0], again[2])


def test_a_fork_of_now_holds_what_was_committed_before_and_lives_on_its_own(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "before")
    fork = world.fork(parent)
    world.backend.commit(parent.id, "parent only")
    world.backend.commit(fork.id, "fork only")
    assert status_of(fork) is Status.READY
    assert world.backend.values(fork.id) == ["before", "fork only"]
    assert world.backend.values(parent.id) == ["before", "parent only"]


def test_a_fork_of_the_last_snapshot_names_it_and_holds_its_rows(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "after the first snapshot")
    fork = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(fork.id) == []
    assert fork.origin is not None
    assert fork.origin.snapshot_id is not None
    assert fork.origin.data_time is not None
    assert parent.created_at < fork.origin.data_time < datetime.now(UTC)


def test_a_service_without_tls_is_refused_with_what_to_install(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.backend.host, "has_tls", lambda _major: False)
    with pytest.raises(Invalid, match="built without TLS") as refused:
        world.create()
    assert refused.value.code == "TLS_MISSING"
    assert ids(world) == []


@pytest.mark.parametrize(
    ("endpoint_host", "has_tls", "announced"),
    [
        ("db.example.org", True, "db.example.org"),
        ("db.example.org", False, "localhost"),
        ("localhost", False, "localhost"),
        ("::1", False, "::1"),
    ],
)
def test_no_service_announces_an_address_that_it_does_not_listen_on(
    endpoint_host: str, has_tls: bool, announced: str
) -> None:
    placement = Placement("local", endpoint_host, range(1), plaintext=True)
    placement.check_tls(18, has_tls=has_tls)
    assert placement.host_of(has_tls=has_tls) == announced


@pytest.mark.parametrize("is_deleted", [False, True])
def test_rule_27_the_last_snapshot_holds_at_least_what_a_fork_of_now_held(world: World, is_deleted: bool) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "before")
    now = world.fork(parent)
    if is_deleted:
        services.delete_service(world.plane, world.project.id, now.id)
        world.worker.run_until_idle()
    last = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert world.backend.values(last.id) == ["before"]
    assert last.origin is not None
    taken = restore.get_restore_window(world.plane, world.project.id, parent.id).snapshots
    assert last.origin.snapshot_id == taken[-1].id
    again = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert again.origin is not None
    assert again.origin.snapshot_id == last.origin.snapshot_id


def refuse(*_: object) -> None:
    raise Failed("DISK_FULL", "The disk is full")


def fail_to_remove(*_: object) -> None:
    raise OSError("Input/output error")


@pytest.mark.parametrize("is_undone", [True, False])
def test_a_fork_of_a_last_snapshot_that_cannot_be_taken_fails_and_hands_over_no_older_one(
    world: World, monkeypatch: pytest.MonkeyPatch, is_undone: bool
) -> None:
    parent = world.create()
    world.fork(parent)
    world.backend.commit(parent.id, "too late")
    world.fork(parent)
    monkeypatch.setattr(world.backend.restore, "take_snapshot", refuse)
    if not is_undone:
        monkeypatch.setattr(world.backend.restore, "delete_snapshot", fail_to_remove)
    fork = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert status_of(fork) is Status.UNSTABLE
    assert "could not be taken" in (fork.failure or "")
    assert world.leftovers() == []


def test_a_fork_of_the_last_snapshot_takes_one_beside_one_that_is_being_undone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = world.create()
    with world.store.write() as tx:
        tx.execute(snapshot.delete())
    monkeypatch.setattr(world.backend.restore, "delete_snapshot", fail_to_remove)
    with monkeypatch.context() as full:
        full.setattr(world.backend.restore, "take_snapshot", refuse)
        world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert status_of(world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT))) is Status.READY


def test_a_fork_to_a_target_time_has_exactly_the_rows_committed_by_then(world: World) -> None:
    parent = world.create()
    rows = [world.backend.commit(parent.id, str(number)) for number in range(3)]
    target = rfc3339(rows[1].committed_at)
    fork = world.fork(parent, ForkRequest(ForkStrategy.PITR, target_time=target))
    assert world.backend.values(fork.id) == ["0", "1"]
    assert fork.origin is not None
    assert fork.origin.target_time == target


def test_a_paused_parent_can_be_forked(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "row")
    services.stop_service(world.plane, world.project.id, parent.id)
    world.worker.run_until_idle()
    parent = services.get_service(world.plane, world.project.id, parent.id)
    assert status_of(parent) is Status.PAUSED
    fork = world.fork(parent)
    assert world.backend.values(fork.id) == ["row"]


def test_a_size_and_a_name_can_be_given(world: World) -> None:
    parent = world.create()
    request = ForkRequest(ForkStrategy.NOW, "preview", "500", 2, environment=Environment.PROD)
    fork = fork_service(world.plane, world.project.id, parent.id, request).service
    assert (fork.name, fork.size, fork.environment) == ("preview", Size(500, 2), Environment.PROD)


def test_names_need_not_be_unique(world: World) -> None:
    parent = world.create()
    assert world.fork(parent).name == world.fork(parent).name


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ForkRequest(ForkStrategy.PITR), "TARGET_TIME_REQUIRED"),
        (ForkRequest(ForkStrategy.NOW, target_time="2026-01-15T10:30:00Z"), "TARGET_TIME_NOT_ALLOWED"),
        (ForkRequest(ForkStrategy.PITR, target_time="2026-01-15T10:30:00"), "INVALID_TARGET_TIME"),
        (ForkRequest(ForkStrategy.PITR, target_time="2020-01-15T10:30:00Z"), "OUTSIDE_RESTORE_WINDOW"),
        (ForkRequest(ForkStrategy.PITR, target_time="2999-01-15T10:30:00Z"), "TARGET_TIME_IN_FUTURE"),
        (ForkRequest(ForkStrategy.NOW, name=""), "INVALID_NAME"),
        (ForkRequest(ForkStrategy.NOW, name="x" * 129), "INVALID_NAME"),
        (ForkRequest(ForkStrategy.NOW, cpu_millis="-5", memory_gbs="2"), "INVALID_SIZE"),
        (ForkRequest(ForkStrategy.NOW, cpu_millis="500"), "INVALID_SIZE"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(world: World, request_: ForkRequest, code: str) -> None:
    parent = world.create()
    with pytest.raises(Invalid) as refusal:
        fork_service(world.plane, world.project.id, parent.id, request_)
    assert refusal.value.code == code
    assert ids(world) == [parent.id]


@pytest.mark.parametrize("service_id", ["", "nosuchserv", "../../etc", "x" * 5000, "a\0b"])
def test_an_unknown_parent_is_not_found(world: World, service_id: str) -> None:
    with pytest.raises(NotFound, match="no service with that id exists"):
        fork_service(world.plane, world.project.id, service_id, NOW)


def test_a_service_of_another_project_is_not_found(world: World) -> None:
    parent = world.create()
    with pytest.raises(NotFound):
        fork_service(world.plane, new_id(), parent.id, NOW)


def test_a_parent_that_is_not_ready_is_refused_with_its_state(world: World) -> None:
    parent = services.create_service(world.plane, world.project.id, CreateRequest("shop")).service
    with pytest.raises(WrongState, match="QUEUED"):
        fork_service(world.plane, world.project.id, parent.id, NOW)


def test_all_ports_in_use_is_an_error_that_says_so(world: World) -> None:
    plane = replace(world.plane, placement=Placement("local", "localhost", range(20000, 20004)))
    parent = world.settle(services.create_service(plane, world.project.id, CreateRequest("shop")))
    for _ in range(3):
        fork_service(plane, world.project.id, parent.id, NOW)
    with pytest.raises(Exhausted) as refused:
        fork_service(plane, world.project.id, parent.id, NOW)
    assert refused.value.code == "NO_FREE_PORT"
    assert len(ids(world)) == 4


def test_the_same_idempotency_key_gives_the_same_service_and_password(world: World) -> None:
    parent = world.create()
    first = fork_service(world.plane, world.project.id, parent.id, NOW, "job-1")
    world.worker.run_until_idle()
    again = fork_service(world.plane, world.project.id, parent.id, NOW, "job-1")
    assert again.service.id == first.service.id
    assert again.initial_password == first.initial_password
    assert len(ids(world)) == 2


def test_the_same_key_with_another_request_is_refused(world: World) -> None:
    parent = world.create()
    fork_service(world.plane, world.project.id, parent.id, NOW, "job-1")
    with pytest.raises(Invalid) as refusal:
        fork_service(world.plane, world.project.id, parent.id, ForkRequest(ForkStrategy.NOW, "other"), "job-1")
    assert refusal.value.code == "IDEMPOTENCY_KEY_REUSED"


def test_a_key_is_free_again_when_its_service_is_gone(world: World) -> None:
    parent = world.create()
    first = fork_service(world.plane, world.project.id, parent.id, NOW, "job-1").service
    world.worker.run_until_idle()
    delete(world, first)
    second = fork_service(world.plane, world.project.id, parent.id, NOW, "job-1").service
    assert second.id != first.id


def delete(world: World, service: Service) -> None:
    services.delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()


def test_a_parent_may_be_deleted_right_after_its_fork_was_accepted(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "row")
    fork = fork_service(world.plane, world.project.id, parent.id, NOW).service
    delete(world, parent)
    assert world.backend.values(fork.id) == ["row"]
    assert ids(world) == [fork.id]
    assert world.leftovers() == []


def test_a_fork_that_is_deleted_at_once_leaves_nothing(world: World) -> None:
    parent = world.create()
    fork = fork_service(world.plane, world.project.id, parent.id, NOW).service
    delete(world, fork)
    assert ids(world) == [parent.id]
    assert world.leftovers() == []


def test_a_crashed_parent_is_waited_for(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "row")
    world.backend.crash(parent.id)
    fork = fork_service(world.plane, world.project.id, parent.id, NOW).service
    world.health.inspect()

    def is_ready() -> bool:
        world.worker.run_until_idle()
        return status_of(services.get_service(world.plane, world.project.id, fork.id)) is Status.READY

    eventually(is_ready)
    assert world.backend.values(fork.id) == ["row"]


def test_a_service_whose_server_is_down_can_be_forked(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "row")
    world.backend.crash(parent.id)
    world.health.inspect()
    assert status_of(services.get_service(world.plane, world.project.id, parent.id)) is Status.UNSTABLE
    assert world.backend.values(world.fork(parent).id) == ["row"]


def test_a_fork_of_the_last_snapshot_is_refused_where_none_exists_and_none_can_be_taken(world: World) -> None:
    parent = world.create()
    with world.store.write() as tx:
        tx.execute(snapshot.delete())
    world.backend.crash(parent.id)
    world.health.inspect()
    with pytest.raises(Invalid, match="has no snapshot") as refused:
        fork_service(world.plane, world.project.id, parent.id, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert refused.value.code == "SNAPSHOT_NOT_FOUND"


@pytest.mark.parametrize(
    ("environment", "asked", "is_neutralized"),
    [
        (Environment.DEV, None, True),
        (Environment.PROD, None, False),
        (Environment.DEV, False, False),
        (Environment.PROD, True, True),
    ],
)
def test_a_fork_is_neutralized_when_it_is_for_development_or_asked_to_be(
    world: World, environment: Environment, asked: bool | None, is_neutralized: bool
) -> None:
    fork = world.fork(world.create(), ForkRequest(ForkStrategy.NOW, environment=environment, quiet=asked))
    assert fork.report is not None
    assert fork.report["neutralised"]["neutralize"] is is_neutralized


def test_a_manual_snapshot_can_be_forked_after_newer_ones(world: World) -> None:
    parent = world.create()
    world.backend.commit(parent.id, "before")
    wanted = restore.take_snapshot(world.plane, world.project.id, parent.id, "before")
    world.worker.run_until_idle()
    world.backend.commit(parent.id, "after")
    restore.take_snapshot(world.plane, world.project.id, parent.id, "after")
    world.worker.run_until_idle()
    fork = world.fork(parent, ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=wanted.id))
    assert world.backend.values(fork.id) == ["before"]
    assert fork.origin is not None
    assert fork.origin.snapshot_id == wanted.id


def test_a_snapshot_is_refused_where_it_means_nothing(world: World) -> None:
    parent = world.create()
    for request, code in (
        (ForkRequest(ForkStrategy.NOW, snapshot_id=new_id()), "SNAPSHOT_NOT_ALLOWED"),
        (ForkRequest(ForkStrategy.LAST_SNAPSHOT, snapshot_id=new_id()), "SNAPSHOT_NOT_FOUND"),
    ):
        with pytest.raises(Invalid) as refused:
            fork_service(world.plane, world.project.id, parent.id, request)
        assert refused.value.code == code
