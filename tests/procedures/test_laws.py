"""Every procedure keeps the laws, step by step, over real SQLite and the memory backend."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.control import replica_sets as replica_verbs
from ramet.control import restore, sleep
from ramet.control.addresses import planned_moves, request_moves
from ramet.control.duties.addresses import move_services
from ramet.control.duties.drills import submit_due_drill
from ramet.control.duties.expiry import Expiry
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.high_availability import set_ha
from ramet.control.parameters import update_settings
from ramet.control.poolers import enable_pooler
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.replication import set_wal_level
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.services import (
    create_service,
    delete_service,
    get_service,
    optimize_service,
    resize_service,
    start_service,
    stop_service,
)
from ramet.errors import NotFound
from ramet.followers.observation import Observing
from ramet.followers.verbs import FollowRequest, follow_service, promote_service
from ramet.imports.verbs import ImportRequest, import_service
from ramet.model.fork import ForkStrategy
from ramet.model.restore_window import RestoreSettings
from ramet.model.service import status_of
from ramet.model.source_copies import SourceCopies
from ramet.model.status import Status
from ramet.model.upstream import Following, FollowMethod
from ramet.model.wal_level import WalLevel
from ramet.operations.procedure import Procedure
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.restores.verbs import RestoreRequest, restore_service
from ramet.store import services
from ramet.store.tables import hold
from ramet.upgrades.verbs import UpgradeRequest, upgrade_service
from tests import procedure_laws as laws
from tests.aging import make_expired_snapshots
from tests.recovery.losses import lose_and_recover
from tests.worlds import Hurried, World, fork_service, make_world

Case = Callable[[World, str], str]


def submit_create(world: World, _parent: str) -> str:
    return create_service(world.plane, world.project.id, CreateRequest("new")).service.id


def submit_fork(world: World, parent: str) -> str:
    return fork_service(world.plane, world.project.id, parent, ForkRequest(ForkStrategy.NOW)).service.id


def submit_import(world: World, _parent: str) -> str:
    world.backend.sources.rows[:] = ["one", "two"]
    request = ImportRequest(CreateRequest("new"), "postgresql://app@db.example/shop", world.backend.sources.password)
    return import_service(world.plane, world.project.id, request).service.id


def submit_trial(world: World, parent: str) -> str:
    """Keep the trial, as a service; what removes one is tested in tests/upgrades."""
    world.backend.commit(parent, "row")
    request = UpgradeRequest(19, is_trial=True, keeps=True)
    return upgrade_service(world.plane, world.project.id, parent, request).service.id


def submit_upgrade(world: World, parent: str) -> str:
    world.backend.commit(parent, "row")
    upgrade_service(world.plane, world.project.id, parent, UpgradeRequest(19))
    return parent


FOLLOWED = "postgresql://app@db.example/shop"


def submit_follow(world: World, _parent: str) -> str:
    world.backend.followers.rows[:] = ["one", "two"]
    request = FollowRequest(CreateRequest("new"), FOLLOWED, world.backend.followers.password)
    return follow_service(world.plane, world.project.id, request).service.id


def submit_copy_again(world: World, parent: str) -> str:
    """Another copy on another timeline: a new window begins."""
    made = submit_follow(world, parent)
    world.worker.run_until_idle()
    followers = world.backend.followers
    followers.needs_copy, followers.problem, followers.timeline = True, "The source has removed WAL.", 2
    before = world.plane.clock() - timedelta(minutes=1)
    with world.store.write() as tx:
        services.record_following(tx, made, Following(observed_at=before, copies=SourceCopies(since=before)))
    Observing(world.plane).observe_standbys()
    return made


def submit_promote(world: World, parent: str) -> str:
    made = submit_follow(world, parent)
    world.worker.run_until_idle()
    world.backend.followers.is_down = True
    return promote_service(world.plane, world.project.id, made, lsn="0/1", drain=True, neutralize=False).id


def submit_follow_logical(world: World, _parent: str) -> str:
    world.backend.sources.rows[:] = ["one", "two"]
    request = FollowRequest(CreateRequest("new"), FOLLOWED, world.backend.sources.password, method=FollowMethod.LOGICAL)
    return follow_service(world.plane, world.project.id, request).service.id


def submit_promote_logical(world: World, parent: str) -> str:
    made = submit_follow_logical(world, parent)
    world.worker.run_until_idle()
    return promote_service(world.plane, world.project.id, made, lsn=None, drain=False, neutralize=False).id


def submit_restore(world: World, parent: str) -> str:
    world.backend.commit(parent, "row")
    taken = restore.take_snapshot(world.plane, world.project.id, parent, "good")
    world.worker.run_until_idle()
    world.backend.commit(parent, "mistake")
    restore_service(world.plane, world.project.id, parent, RestoreRequest(snapshot=taken.id))
    return parent


def submit_stop(world: World, parent: str) -> str:
    return stop_service(world.plane, world.project.id, parent).id


def submit_start(world: World, parent: str) -> str:
    stop_service(world.plane, world.project.id, parent)
    world.worker.run_until_idle()
    return start_service(world.plane, world.project.id, parent).id


def submit_restart(world: World, parent: str) -> str:
    world.backend.crash(parent)
    world.health.inspect()
    return parent


def submit_sleep(world: World, parent: str) -> str:
    submit_set_sleep(world, parent)
    world.worker.run_until_idle()
    assert sleep.submit_sleep(world.plane, parent)
    return parent


def submit_set_sleep(world: World, parent: str) -> str:
    return sleep.set_sleep(world.plane, world.project.id, parent, 60).id


def submit_delete(world: World, parent: str) -> str:
    return delete_service(world.plane, world.project.id, parent).id


def submit_snapshot(world: World, parent: str) -> str:
    world.backend.commit(parent, "row")
    ScheduledSnapshots(replace(world.plane, restore=RestoreSettings(snapshot_interval_seconds=0))).take_due()
    return parent


def submit_drill(world: World, parent: str) -> str:
    world.backend.commit(parent, "row")
    submit_due_drill(world.plane, timedelta(0))
    return parent


def submit_expire(world: World, parent: str) -> str:
    make_expired_snapshots(world, parent)
    Expiry(world.plane, world.plane.clock, world.storage_guard).remove_due()
    return parent


def submit_delete_snapshot(world: World, parent: str) -> str:
    taken = restore.take_snapshot(world.plane, world.project.id, parent, "by hand")
    world.worker.run_until_idle()
    restore.delete_snapshot(world.plane, world.project.id, parent, taken.id)
    return parent


def submit_resize(world: World, parent: str) -> str:
    return resize_service(world.plane, world.project.id, parent, "1000", "4").id


def submit_settings(world: World, parent: str) -> str:
    changes = {"work_mem": "64MB", "max_connections": "200"}
    return update_settings(world.plane, world.project.id, parent, changes, restarts=True).id


def submit_wal_level(world: World, parent: str) -> str:
    return set_wal_level(world.plane, world.project.id, parent, WalLevel.LOGICAL).id


def submit_standbys(world: World, parent: str) -> str:
    world.backend.has_standbys = True
    return set_ha(world.plane, world.project.id, parent, 2, 1).id


def submit_address(world: World, parent: str) -> str:
    """With read replicas, a pooler, and a server that has to listen elsewhere."""
    active_set(world, parent)
    enable_pooler(world.plane, world.project.id, parent)
    world.worker.run_until_idle()
    request_moves(world.store, planned_moves(world.store, "db.example.com", lambda _major: True))
    move_services(world.plane)
    return parent


def submit_optimize(world: World, parent: str) -> str:
    return optimize_service(world.plane, world.project.id, parent).id


def submit_pooler(world: World, parent: str) -> str:
    enable_pooler(world.plane, world.project.id, parent)
    return parent


def submit_replica_set(world: World, parent: str) -> str:
    request = ReplicaSetRequest("reports", 2, 500, 2)
    return replica_verbs.create_set(world.plane, world.project.id, parent, request).id


def active_set(world: World, parent: str) -> str:
    made = submit_replica_set(world, parent)
    world.worker.run_until_idle()
    return made


def submit_resize_set(world: World, parent: str) -> str:
    made = active_set(world, parent)
    replica_verbs.resize_set(world.plane, world.project.id, parent, made, "1000", "4")
    return made


def submit_restart_set(world: World, parent: str) -> str:
    made = active_set(world, parent)
    world.backend.crash(made)
    world.health.inspect()
    return made


def submit_delete_set(world: World, parent: str) -> str:
    made = active_set(world, parent)
    replica_verbs.delete_set(world.plane, world.project.id, parent, made)
    return made


def submit_rebuild_set(world: World, parent: str) -> str:
    made = active_set(world, parent)
    submit_restore(world, parent)
    return made


def submit_set_pooler(world: World, parent: str) -> str:
    made = active_set(world, parent)
    replica_verbs.enable_pooler(world.plane, world.project.id, parent, made)
    return made


CASES: dict[str, tuple[Case, Status | None]] = {
    "create": (submit_create, Status.READY),
    "fork": (submit_fork, Status.READY),
    "recover": (lose_and_recover, Status.READY),
    "import": (submit_import, Status.READY),
    "follow": (submit_follow, Status.READY),
    "copy_again": (submit_copy_again, Status.READY),
    "replace_copy": (submit_copy_again, Status.READY),
    "promote": (submit_promote, Status.READY),
    "follow_logical": (submit_follow_logical, Status.READY),
    "promote_logical": (submit_promote_logical, Status.READY),
    "restore": (submit_restore, Status.READY),
    "stop": (submit_stop, Status.PAUSED),
    "start": (submit_start, Status.READY),
    "restart": (submit_restart, Status.READY),
    "sleep": (submit_sleep, Status.PAUSED),
    "set_sleep": (submit_set_sleep, Status.READY),
    "delete": (submit_delete, None),
    "pooler": (submit_pooler, Status.READY),
    "create_replicas": (submit_replica_set, Status.READY),
    "resize_replicas": (submit_resize_set, Status.READY),
    "restart_replicas": (submit_restart_set, Status.READY),
    "rebuild_replicas": (submit_rebuild_set, Status.READY),
    "delete_replicas": (submit_delete_set, None),
    "replica_pooler": (submit_set_pooler, Status.READY),
    "resize": (submit_resize, Status.READY),
    "set_parameters": (submit_settings, Status.READY),
    "set_wal_level": (submit_wal_level, Status.READY),
    "set_address": (submit_address, Status.READY),
    "set_ha": (submit_standbys, Status.READY),
    "optimize": (submit_optimize, Status.READY),
    "snapshot": (submit_snapshot, Status.READY),
    "prepare": (submit_create, Status.READY),
    "aftercare": (submit_fork, Status.READY),
    "drill": (submit_drill, Status.READY),
    "expire": (submit_expire, Status.READY),
    "delete_snapshot": (submit_delete_snapshot, Status.READY),
    "try_upgrade": (submit_trial, Status.READY),
    "upgrade": (submit_upgrade, Status.READY),
}
STEPS = [
    (procedure.name, step)
    for procedure in all_procedures(Tools(None, MemoryBackend(), None))  # type: ignore[arg-type]
    for step in procedure.steps
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make_world(tmp_path, MemoryBackend(starts_after=2), Hurried)
    yield made
    made.store.close()


def run(world: World, name: str, step: str, rewrite: laws.Rewrite) -> tuple[str, Status | None]:
    """Submit the case with a step of its procedure rewritten, and return the service and its status at the end."""
    parent = world.create().id
    subject = CASES[name][0](world, parent)
    ran: list[str] = []
    procedures = laws.rewritten(world.procedures, name, lambda found: laws.recorded(rewrite(found), step, ran))
    worker = Hurried(world.store, procedures)
    try:
        worker.run_until_idle()
    except laws.Crash:
        expire_leases(world)
        Hurried(world.store, world.procedures).run_until_idle()
    assert ran, f"the case of {name} does not run its step {step}"
    try:
        return subject, status_of(get_service(world.plane, world.project.id, subject))
    except NotFound:
        return subject, None


def expire_leases(world: World) -> None:
    from ramet.store.tables import operation

    with world.store.write() as tx:
        tx.execute(operation.update().values(run_at=0.0))


def nothing_is_held(world: World) -> bool:
    with world.store.read() as tx:
        claimed = [s for s in services.live_services(tx) if s.activity is not None]
        return not claimed and not tx.execute(hold.select()).all()


def test_every_procedure_has_a_case() -> None:
    assert {name for name, _step in STEPS} == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("rewrite", [laws.twice, laws.crashing])
@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_step_that_runs_twice_or_crashes_after_its_effect_comes_to_the_same_end(
    world: World, name: str, step: str, rewrite: Callable[[Procedure, str], Procedure]
) -> None:
    _subject, status = run(world, name, step, lambda procedure: rewrite(procedure, step))
    assert status == CASES[name][1]
    assert nothing_is_held(world)
    assert world.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_failure_at_a_step_leaves_nothing(world: World, name: str, step: str, after: bool) -> None:
    subject, status = run(world, name, step, lambda p: laws.undone_twice(laws.failing(p, step, after=after)))
    assert nothing_is_held(world)
    assert world.leftovers() == []
    if name in ("create", "fork", "import", "follow", "follow_logical", "recover", "try_upgrade"):
        assert status is Status.UNSTABLE
        assert "Injected" in (get_service(world.plane, world.project.id, subject).failure or "")
    elif name in ("start", "restart"):
        assert status is Status.UNSTABLE
