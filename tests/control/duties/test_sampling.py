"""Counters that go on where what they are read from falls, or jumps."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from ramet.control.duties.sampling import Sampling
from ramet.control.metrics import wal_growth
from ramet.control.replica_sets import ReplicaSetRequest, create_set
from ramet.control.subjects import servers_of
from ramet.model.metrics import Function, Sample, plan, series
from ramet.model.service import Service
from ramet.store import metrics
from tests.worlds import World

COMMITS = "ramet_transactions_total;outcome=commit"
WAL = "ramet_wal_bytes_total"


def sample(world: World, service_id: str, *measured: dict[str, float] | None, begins: int = 0) -> None:
    """Take a sample each half minute, each by another process; None where the server does not answer."""
    for n, values in enumerate(measured, begins):
        volume = world.backend.volumes[service_id]
        volume.running, volume.measured = values is not None, values or {}
        plane = replace(world.plane, clock=partial(ahead, world, timedelta(seconds=30 * n)))
        for _ in range(2):  # a round ends after a fifth of a second, and the next one goes on with the rest
            Sampling(plane).sample()


def ahead(world: World, duration: timedelta) -> datetime:
    return world.plane.clock() + duration


def taken(world: World, subject: str) -> list[Sample]:
    now = world.plane.clock()
    with world.store.read() as tx:
        return metrics.list_samples(tx, subject, now - timedelta(hours=1), now + timedelta(hours=1))


def values(world: World, service: Service, key: str) -> list[float]:
    return [one.values[key] for one in taken(world, service.id) if key in one.values]


@pytest.mark.parametrize("key", [WAL, COMMITS, "ramet_blocks_total;source=disk", "ramet_deadlocks_total"])
def test_a_counter_that_falls_has_not_grown_and_goes_on(world: World, key: str) -> None:
    """The sums over all databases fall when one is dropped, the LSN when earlier data takes its place."""
    service = world.create()
    sample(world, service.id, *({key: value} for value in (276.0, 280.0, 118.0, 120.0, 90.0, 91.0)))
    assert values(world, service, key) == [276.0, 280.0, 280.0, 282.0, 282.0, 283.0]
    begin = world.plane.clock() - timedelta(hours=1)
    query = plan(key.split(";")[0], begin, begin + timedelta(hours=2), 7200, Function.INCREASE, {})
    (found,) = series(taken(world, service.id), query)
    assert sum(value or 0.0 for _, value in found.points) == 7.0


def test_a_greater_lsn_on_another_timeline_is_no_growth(world: World) -> None:
    service = world.create()
    measured = ((1, 500.0), (1, 600.0), (7, 9000.0), (7, 9100.0))
    sample(world, service.id, *({WAL: lsn, COMMITS: lsn, "timeline": timeline} for timeline, lsn in measured))
    assert values(world, service, WAL) == [500.0, 600.0, 600.0, 700.0]
    assert values(world, service, COMMITS) == [500.0, 600.0, 9000.0, 9100.0]
    now = world.plane.clock()
    grown = wal_growth(world.plane, service.id, now - timedelta(hours=1), now + timedelta(hours=1))
    assert [one.size_bytes for one in grown] == [100.0, 0.0, 100.0]


def test_a_counter_goes_on_after_a_time_without_samples_and_one_without_measurements(world: World) -> None:
    service = world.create()
    world.backend.archive.location = "s3://bucket"
    sample(world, service.id, {WAL: 276.0}, {WAL: 118.0}, None, {WAL: 119.0})
    sample(world, service.id, {WAL: 5.0}, {WAL: 7.0}, begins=100)
    assert values(world, service, WAL) == [276.0, 276.0, 277.0, 277.0, 279.0]


def test_a_service_has_no_lag_of_a_replica(world: World) -> None:
    """A standby of a database elsewhere is in recovery as a replica is; how far it is behind has its own series."""
    service = world.create()
    sample(world, service.id, {WAL: 1.0, "ramet_replay_lag_seconds": 900.0})
    (found,) = taken(world, service.id)
    assert "ramet_replay_lag_seconds" not in found.values


def test_the_cpu_of_a_server_that_was_started_again_begins_from_zero(world: World) -> None:
    service = world.create()
    key = "ramet_cpu_seconds_total"
    sample(world, service.id, {key: 50.0}, {key: 3.0})
    assert values(world, service, key) == [50.0, 3.0]


def test_the_counters_of_each_node_go_on_from_its_own(world: World) -> None:
    parent = world.create()
    made = create_set(world.plane, world.project.id, parent.id, ReplicaSetRequest("readers", 2, "500", "2"))
    world.worker.run_until_idle()
    with world.store.read() as tx:
        nodes = servers_of(tx, made.id)
    for n, (first, second) in enumerate([(100.0, 900.0), (20.0, 950.0), (30.0, None), (40.0, 800.0)]):
        for node, value in zip(nodes, (first, second), strict=True):
            volume = world.backend.volumes[node.service_id]
            volume.running, volume.measured = value is not None, {WAL: value or 0.0, "timeline": 1}
        sample(world, parent.id, {}, begins=n)
    found = taken(world, made.id)
    assert [one.values.get(f"{WAL};node=0") for one in found] == [100.0, 100.0, 110.0, 120.0]
    assert [one.values.get(f"{WAL};node=1") for one in found] == [900.0, 950.0, None, 950.0]
