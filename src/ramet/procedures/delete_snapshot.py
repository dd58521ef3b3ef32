"""Delete one snapshot of a service.

step     waits for or does                                       undo
forget   forks that are being made; then its row is gone         -
sweep    its files are gone                                      - (there is no way back)
"""

from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import Tools
from ramet.store import services, snapshots


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `delete_snapshot`."""

    def forget(work: Work) -> Outcome:
        with tools.store.read() as tx:
            holders = services.holders(tx, work.subject)
        if holders:
            return Wait(0.05, f"held by {', '.join(holders)}")
        chosen = [work.state["snapshot_id"]]
        return Next("sweep", changes=lambda tx: snapshots.delete_unheld(tx, work.subject, chosen, work.operation_id))

    def sweep(work: Work) -> Outcome:
        snapshot_id = work.state["snapshot_id"]
        with tools.store.read() as tx:
            if any(kept.id == snapshot_id for kept in snapshots.list_snapshots(tx, work.subject)):
                return Next("forget")  # a fork took hold of it in between
        tools.backend.restore.delete_snapshot(work.subject, snapshot_id)
        return Done()

    return Procedure(name="delete_snapshot", first="forget", steps={"forget": forget, "sweep": sweep})
