"""Take a snapshot of a service, then let go of what its restore window no longer needs.

step     leaves behind                                       undo
take     the snapshot                                        drop it
retire   no rows of snapshots that no moment needs           -
sweep    no files of them, and no WAL older than the window  -
"""

from datetime import timedelta

import sqlalchemy as sa

from ramet.model.snapshot import SnapshotKind, lsn_number, retired, rollable
from ramet.model.window import RestoreSettings, settings_of
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import Tools, let_go, recording, submit_preparation, take_snapshot
from ramet.store import services, snapshots


def procedure(tools: Tools, window: timedelta) -> Procedure:
    """Return the procedure `snapshot`; `window` is how far back a service can be restored that says nothing else."""
    default = RestoreSettings(window_days=window.days)

    def take(work: Work) -> Outcome:
        taken = take_snapshot(tools, work, SnapshotKind(work.state["kind"]))
        return taken if isinstance(taken, Wait) else Next("retire", changes=recording(taken))

    def retire(work: Work) -> Outcome:
        with tools.store.read() as tx:
            if any(holder != work.operation_id for holder in services.holders(tx, work.subject)):
                return Done(changes=lambda tx: end(tx, work))
            known = snapshots.list_snapshots(tx, work.subject)
        reach = settings_of(tools.service(work.subject).settings, default).window
        unneeded = [snapshot.id for snapshot in retired(known, tools.clock(), reach)]
        return Next(
            "sweep",
            {"retired": unneeded},
            changes=lambda tx: snapshots.delete_unheld(tx, work.subject, unneeded, work.operation_id),
        )

    def sweep(work: Work) -> Outcome:
        with tools.store.read() as tx:
            kept = snapshots.list_snapshots(tx, work.subject)
        for snapshot_id in set(work.state["retired"]) - {snapshot.id for snapshot in kept}:
            tools.backend.drop_snapshot(work.subject, snapshot_id)
        oldest = min(rollable(kept), key=lambda snapshot: lsn_number(snapshot.start_lsn), default=None)
        if oldest is not None:
            tools.backend.trim_archive(work.subject, oldest.timeline, oldest.start_lsn)
        return Done(changes=lambda tx: end(tx, work))

    def end(tx: sa.Connection, work: Work) -> None:
        let_go(tx, work)
        submit_preparation(tx, work.subject, work.state["snapshot_id"])

    def drop(work: Work) -> None:
        tools.backend.drop_snapshot(work.subject, work.state["snapshot_id"])

    return Procedure(
        name="snapshot",
        first="take",
        steps={"take": take, "retire": retire, "sweep": sweep},
        undo={"take": drop},
        on_failed=let_go,
        background=True,
    )
