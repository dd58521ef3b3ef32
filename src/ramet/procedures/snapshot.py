"""Take a snapshot of a service, then remove what its restore window no longer needs.

A snapshot of a service that is forked, or one by hand, is made quick to copy; older prepared copies are removed.

step     leaves behind                                            undo
take     the snapshot                                             drop it, unless it is listed
retire   no older prepared copies, and no rows of those           -
         that no restore point needs
sweep    no files of them, and no WAL older than the window       -

Its service is held until it is taken, or cut by storage that works on it for long after that.
"""

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.restore import SNAPSHOT_UNDER_WAY
from ramet.errors import Failed, Unavailable
from ramet.model.cadence import USUAL_SECONDS
from ramet.model.procedures import ProcedureName
from ramet.model.service import is_falling_asleep
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.expiry import keeps_all, remove_files, unneeded, unprepare_older
from ramet.procedures.servers import (
    FORKED_WITHIN,
    STORED_SECONDS,
    Steps,
    release_holds,
    submit_preparation,
    take_snapshot,
)
from ramet.procedures.state import SnapshotState
from ramet.store import services, snapshots


class TakeSnapshot(Steps):
    """The steps of `snapshot`."""

    name = ProcedureName.SNAPSHOT

    def take(self, work: Work[SnapshotState]) -> Outcome:
        if self.tools.backend.copies.are_needed() or self.tools.service(work.subject).deleted_at is not None:
            return Done(changes=lambda tx: release_holds(tx, work))
        begun = self.tools.stopwatch()
        try:
            taken = take_snapshot(self.tools, work, work.state.kind, work.state.name)
        except Unavailable as error:
            if error.code != SNAPSHOT_UNDER_WAY:
                raise
            self._release(work)
            return Wait(STORED_SECONDS, str(error))
        if isinstance(taken, Wait):
            self._give_way(work)
            return taken
        begun = min(begun, self.tools.stopwatch() - self._stored_seconds(work, taken))
        return Next("retire", self._timed(work, begun), lambda tx: snapshots.insert_snapshot(tx, taken))

    def _release(self, work: Work[SnapshotState]) -> None:
        """Release the service, unless it is: nothing that is done to its server changes what was cut."""
        with self.tools.store.read() as tx:
            is_held = work.operation_id in services.holders(tx, work.subject)
        if is_held:
            with self.tools.store.write() as tx:
                release_holds(tx, work)

    def _stored_seconds(self, work: Work[SnapshotState], taken: Snapshot) -> float:
        """Return how long storage has worked on a snapshot, perhaps during earlier calls; 0 if not longer than usual.

        The clock of the server, which says when it was taken, may differ: it was not before the step began.
        """
        seconds = (self.tools.clock() - max(taken.taken_at, work.step_started_at)).total_seconds()
        return seconds if seconds > USUAL_SECONDS else 0.0

    def _give_way(self, work: Work[SnapshotState]) -> None:
        """Raise Failed when what works on the service waits for this, and so nothing starts the server again.

        A service that falls asleep, or has just done so, is copied from its stopped data directory at a later attempt.
        """
        service = self.tools.service(work.subject)
        others = service.activity is not None and service.activity.procedure != ProcedureName.RESTART
        if others and not (service.asleep or is_falling_asleep(service)):
            raise Failed("SERVER_DOWN", "The server is not running, and another operation works on the service")

    def retire(self, work: Work[SnapshotState]) -> Outcome:
        with self.tools.store.read() as tx:
            if any(holder != work.operation_id for holder in services.holders(tx, work.subject)):
                return Done(changes=lambda tx: self._end(tx, work))
            known = snapshots.list_snapshots(tx, work.subject)
        begun = self.tools.stopwatch()
        unprepare_older(self.tools, known)
        service = self.tools.service(work.subject)
        ids = [] if keeps_all(service) else unneeded(self.tools, service, known)
        return Next(
            "sweep",
            replace(self._timed(work, begun), retired=tuple(ids)),
            changes=lambda tx: snapshots.delete_unheld(tx, work.subject, ids, work.operation_id),
        )

    def sweep(self, work: Work[SnapshotState]) -> Outcome:
        begun = self.tools.stopwatch()
        remove_files(self.tools, work.subject, work.state.retired)
        return Done(self._timed(work, begun), lambda tx: self._end(tx, work))

    def _timed(self, work: Work[SnapshotState], begun: float) -> SnapshotState:
        """Return the state with the time since `begun` added: waiting for a worker or the server is not a cost."""
        return replace(work.state, seconds=work.state.seconds + self.tools.stopwatch() - begun)

    def _end(self, tx: sa.Connection, work: Work[SnapshotState]) -> None:
        release_holds(tx, work)
        is_by_hand = work.state.kind is SnapshotKind.MANUAL
        if is_by_hand or services.count_forks(tx, work.subject, self.tools.clock() - FORKED_WITHIN, 1):
            submit_preparation(tx, work.subject, work.state.snapshot_id)

    def undo_take(self, work: Work[SnapshotState]) -> None:
        """Remove a snapshot, unless it is listed: then it is whole, and only the removal of what is older failed."""
        with self.tools.store.read() as tx:
            listed = {snapshot.id for snapshot in snapshots.list_snapshots(tx, work.subject)}
        if work.state.snapshot_id in listed:
            return
        self.tools.backend.restore.delete_snapshot(work.subject, work.state.snapshot_id)
