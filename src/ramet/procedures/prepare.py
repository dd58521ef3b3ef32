"""Make a snapshot of a service quick to copy: the newest one, or the newest that was taken by hand.

step      leaves behind                                          undo
rest      a hold on the service, which does not delay forks      -
prepare   a recovered copy of the snapshot, and spare copies     undo_prepare

It ends as soon as somebody wants to stop, resize or delete the service. After a preparation that took long, `rest`
waits until preparations take a small share of the time (ramet.model.cadence).
"""

from datetime import timedelta

from ramet.backends.interface.values import MOST_SPARES
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.snapshot import worth_preparing
from ramet.model.status import READY_OR_PAUSED
from ramet.model.timestamps import time_left
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.postponed import time_until_preparation
from ramet.procedures.servers import FORKED_WITHIN, PATIENCE_SECONDS, Steps, release_holds, seconds_to_rest, server_of
from ramet.procedures.state import OneSnapshotState
from ramet.store import services, snapshots

_LATE = timedelta(minutes=10)
_LOOK_SECONDS = 60.0  # whether a newer snapshot has replaced this one


class Prepare(Steps):
    """The steps of `prepare`."""

    name = ProcedureName.PREPARE

    def rest(self, work: Work[OneSnapshotState]) -> Outcome:
        service = self.tools.service(work.subject)
        if not self._is_wanted(work, service):
            return Done()
        left = time_left(work.created_at, self.tools.preparation_rest, self.tools.clock()).total_seconds()
        seconds = max(seconds_to_rest(self.tools, service), left)
        if seconds > 0:
            return Wait(seconds, "the new service is left alone")
        with self.tools.store.read() as tx:
            snapshot_id, now = work.state.snapshot_id, self.tools.clock()
            left = time_until_preparation(tx, work.subject, snapshot_id, now).total_seconds()
        if left > 0:
            pause = min(left, _LOOK_SECONDS)
            return Wait(pause, f"the last preparation took long; the next one begins in {left:.0f} s")
        return Next("prepare", changes=lambda tx: services.add_hold(tx, work.subject, work.operation_id))

    def prepare(self, work: Work[OneSnapshotState]) -> Outcome:
        service, snapshot_id = self.tools.service(work.subject), work.state.snapshot_id
        if self._is_wanted(work, service):
            server, spares = server_of(service), self._demand(service)
            progress = self.tools.backend.restore.prepare_snapshot(server, snapshot_id, PATIENCE_SECONDS, spares)
            if progress is not None:
                return Wait(0, progress)
        else:
            self.undo_prepare(work)
        return Done(changes=lambda tx: release_holds(tx, work))

    def undo_prepare(self, work: Work[OneSnapshotState]) -> None:
        self.tools.backend.restore.discard_preparation(work.subject, work.state.snapshot_id)

    def _demand(self, service: Service) -> int:
        """Return how many forks may come at once: as many as came in the last minutes; 0 where none is likely.

        One fork makes no template: many are made once, to look at something.
        """
        now = self.tools.clock()
        with self.tools.store.read() as tx:
            if services.count_forks(tx, service.id, now - FORKED_WITHIN, 2) < 2:
                return 0
            return max(1, services.count_forks(tx, service.id, now - _LATE, MOST_SPARES))

    def _is_wanted(self, work: Work[OneSnapshotState], service: Service) -> bool:
        """Tell whether the service has no operation, and the snapshot is still likely to be copied next."""
        with self.tools.store.read() as tx:
            is_likely = work.state.snapshot_id in worth_preparing(snapshots.list_snapshots(tx, work.subject))
        return is_likely and service.activity is None and status_of(service) in READY_OR_PAUSED
