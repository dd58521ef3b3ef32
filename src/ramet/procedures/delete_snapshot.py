"""Delete one snapshot of a service.

step     waits for or does                                        undo
forget   waits for forks that are being made; removes its row     -
sweep    removes its files                                        - (the data is gone)
"""

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import Tools
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import OneSnapshotState
from ramet.store import services, snapshots


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `delete_snapshot`."""

    def forget(work: Work[OneSnapshotState]) -> Outcome:
        with tools.store.read() as tx:
            holders = services.holders(tx, work.subject)
        if holders:
            return Wait(0.05, f"held by {', '.join(holders)}")
        chosen = [work.state.snapshot_id]
        return Next("sweep", changes=lambda tx: snapshots.delete_unheld(tx, work.subject, chosen, work.operation_id))

    def sweep(work: Work[OneSnapshotState]) -> Outcome:
        snapshot_id = work.state.snapshot_id
        with tools.store.read() as tx:
            if any(kept.id == snapshot_id for kept in snapshots.list_snapshots(tx, work.subject)):
                return Next("forget")  # a fork has taken hold of it since
        tools.backend.restore.delete_snapshot(work.subject, snapshot_id)
        return Done()

    return procedure_of(ProcedureName.DELETE_SNAPSHOT, {"forget": forget, "sweep": sweep})
