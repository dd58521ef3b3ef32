"""Delete one snapshot of a service.

step     waits for or does                                        undo
forget   waits for forks that are being made; removes its row     -
sweep    removes its files                                        - (the data is gone)
"""

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.servers import Steps, await_others
from ramet.procedures.state import OneSnapshotState
from ramet.store import services, snapshots


class DeleteSnapshot(Steps):
    """The steps of `delete_snapshot`."""

    name = ProcedureName.DELETE_SNAPSHOT

    def forget(self, work: Work[OneSnapshotState]) -> Outcome:
        with self.tools.store.read() as tx:
            holders = services.holders(tx, work.subject)
        if holders:
            return await_others(self.tools, work, f"held by {', '.join(holders)}")
        chosen = [work.state.snapshot_id]
        return Next("sweep", changes=lambda tx: snapshots.delete_unheld(tx, work.subject, chosen, work.operation_id))

    def sweep(self, work: Work[OneSnapshotState]) -> Outcome:
        snapshot_id = work.state.snapshot_id
        with self.tools.store.read() as tx:
            if any(kept.id == snapshot_id for kept in snapshots.list_snapshots(tx, work.subject)):
                return Next("forget")  # a fork has taken hold of it since
        self.tools.backend.restore.delete_snapshot(work.subject, snapshot_id)
        return Done()
