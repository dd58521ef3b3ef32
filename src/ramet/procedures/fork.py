"""Fork a service.

    step       leaves behind                                 undo
    capture    the fork's volume, independent of the parent  destroy
    recover    the wanted state, cleanly stopped             (destroy)
    boot       a server; open only if it is secured already  (destroy)
    secure     its own credentials; DEV: neutralized         (destroy)
    publish    an open endpoint: READY                       -

Its own restore window begins with a snapshot that is submitted in the transaction that makes it READY.

Where the storage takes no snapshots, `capture` takes as long as a copy of all data.

The parent is held from acceptance until `capture` is recorded: nothing stops, starts, trims or deletes it in that time.
Where the recovery takes from the parent's snapshots and archived WAL, it is held until `recover` is recorded.
What only the off-host archive has is downloaded by `capture`, which needs nothing of the parent then, and no hold.
A server that is killed before it is open is started again.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import SnapshotKind, newest
from ramet.operations.procedure import Next, NoState, Outcome, Wait, Work
from ramet.procedures.capturing import capture_parent, report_of
from ramet.procedures.servers import (
    Creation,
    boot,
    finish,
    publish,
    recover,
    release_captured,
    release_holds,
    repeats_from,
    submit_preparation,
    submit_snapshot,
)
from ramet.procedures.spec import submit
from ramet.procedures.state import ForkState
from ramet.store import services, snapshots
from ramet.store.operations import under_way


class Fork(Creation):
    """The steps of `fork`."""

    name = ProcedureName.FORK
    undo_capture = Creation.destroy

    def capture(self, work: Work[ForkState]) -> Outcome:
        found = capture_parent(self.tools, work, self.tools.server(work), self.neutralizes(work))
        if isinstance(found, Wait):
            return found
        captured, base = found

        def record(tx: sa.Connection) -> None:
            release_captured(tx, work, captured)
            if base is not None and work.state.target is None:
                services.update_service(tx, work.subject, origin_snapshot_id=base.id, data_time=base.taken_at)

        return Next("recover", replace(work.state, capture=captured), changes=record, early=True)

    def neutralizes(self, work: Work[ForkState]) -> bool | None:
        """Return how the copy will be secured as soon as it runs; None: not at once."""
        return work.state.quiet

    def recover(self, work: Work[ForkState]) -> Outcome:
        return recover(self.tools, work, self.tools.server(work))

    def boot(self, work: Work[ForkState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), first=True) or Next("secure")

    @repeats_from("boot")
    def secure(self, work: Work[ForkState]) -> Outcome:
        return self.secured(work, "publish")

    def secured(self, work: Work[ForkState], following: str) -> Next:
        """Give the fork its own credentials, and continue with the step `following`."""
        server, neutralize = self.tools.server(work), work.state.quiet
        found = self.tools.backend.servers.secure(server, is_new=False, neutralize=neutralize)
        return Next(following, replace(work.state, neutralised=found | work.state.neutralised))

    def publish(self, work: Work[ForkState]) -> Outcome:
        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock(), report=report_of(work.state))
            submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)
            submit(tx, ProcedureName.AFTERCARE, work.subject, NoState())
            _prepare_next_fork(tx, work.state)

        return publish(self.tools, work, record)

    def on_undoing(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        release_holds(tx, work)


def _prepare_next_fork(tx: sa.Connection, state: ForkState) -> None:
    """Submit that the parent's newest snapshot is made as quick to fork as it can be."""
    if state.target is not None or under_way(tx, state.parent_id, ProcedureName.PREPARE):
        return
    base = newest(snapshots.list_snapshots(tx, state.parent_id))
    if base is not None:
        submit_preparation(tx, state.parent_id, base.id)
