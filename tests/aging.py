"""Snapshots that are older than the restore window."""

from datetime import timedelta

from ramet.model.snapshot import SnapshotKind
from ramet.procedures.servers import submit_snapshot
from ramet.store import snapshots
from ramet.store.tables import snapshot
from tests.worlds import World

_DAYS_OLD = (20, 15, 10)


def make_expired_snapshots(world: World, service_id: str) -> list[str]:
    """Let a service have three snapshots that are older than its window, the last of which it needs; return their ids.

    The oldest is its first one.
    """
    for _ in _DAYS_OLD[1:]:
        world.backend.commit(service_id, "row")
        with world.plane.change() as tx:
            submit_snapshot(tx, service_id, SnapshotKind.SCHEDULED)
        world.worker.run_until_idle()
    with world.store.write() as tx:
        ids = [each.id for each in snapshots.list_snapshots(tx, service_id)]
        for snapshot_id, days in zip(ids, _DAYS_OLD, strict=True):
            taken_at = world.plane.clock() - timedelta(days=days)
            tx.execute(snapshot.update().where(snapshot.c.id == snapshot_id).values(taken_at=taken_at))
    return ids
