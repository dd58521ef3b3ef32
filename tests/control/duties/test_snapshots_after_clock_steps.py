"""Which base backups a step of the clock makes due where nothing was written since the last one."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from ramet.backends.interface.values import Server, SnapshotFacts
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot
from ramet.model.upstream import FollowMethod, Upstream
from ramet.store import snapshots
from ramet.store.tables import service as service_table
from tests.worlds import World

MINUTE = timedelta(minutes=1)


def known_snapshots(world: World, service: Service) -> list[Snapshot]:
    with world.store.read() as tx:
        return snapshots.list_snapshots(tx, service.id)


def follow_elsewhere(world: World, service: Service) -> None:
    source = Upstream(
        method=FollowMethod.PHYSICAL,
        host="db.example",
        port=5432,
        database="shop",
        user="replicator",
        sslmode="require",
        system_identifier="7",
        bootstrap_role="postgres",
    )
    with world.store.write() as tx:
        row = service_table.update().where(service_table.c.id == service.id)
        tx.execute(row.values(upstream=msgspec.to_builtins(source)))


@pytest.mark.parametrize("is_step", [True, False], ids=["a step", "ahead for good"])
@pytest.mark.parametrize("earlier", [0, 1], ids=["the same time", "an earlier time"])
@pytest.mark.parametrize(("follows", "wanted"), [(True, 0), (False, 1)], ids=["a standby", "one of its own"])
def test_base_backups_that_end_where_the_last_one_did_do_not_follow_one_another_after_a_step_of_the_clock(
    world: World, monkeypatch: pytest.MonkeyPatch, *, follows: bool, wanted: int, earlier: int, is_step: bool
) -> None:
    service = world.create()
    if follows:
        follow_elsewhere(world, service)
    (last,) = known_snapshots(world, service)
    take = world.backend.restore.take_snapshot

    def take_the_same(server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        facts = take(server, snapshot_id, paused)
        assert facts is not None
        at = last.taken_at - timedelta(seconds=earlier)
        return replace(facts, taken_at=at, start_lsn=last.start_lsn, end_lsn=last.end_lsn)

    monkeypatch.setattr(world.backend.restore, "take_snapshot", take_the_same)
    duty = ScheduledSnapshots(world.plane if is_step else replace(world.plane, clock=lambda: last.taken_at - MINUTE))
    if is_step:
        monkeypatch.setattr(duty, "_has_clock_gone_back", iter([True, False, False]).__next__)
    for _ in range(3):
        duty.take_due()
        world.worker.run_until_idle()
    assert len(known_snapshots(world, service)) == 1 + wanted


def test_a_standby_that_has_replayed_more_gets_a_base_backup_after_a_step_of_the_clock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, duty = world.create(), ScheduledSnapshots(world.plane)
    follow_elsewhere(world, service)
    monkeypatch.setattr(duty, "_has_clock_gone_back", iter([True, False, False]).__next__)
    for wanted in (1, 2, 2):
        duty.take_due()
        world.worker.run_until_idle()
        assert len(known_snapshots(world, service)) == wanted
        world.backend.commit(service.id, "row")
