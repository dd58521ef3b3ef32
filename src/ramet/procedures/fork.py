"""Fork a service.

    step       leaves behind                                 undo
    capture    the fork's volume, independent of the parent  destroy
    recover    the wanted state, cleanly stopped             (destroy)
    boot       a server, closed to clients                   (destroy)
    secure     its own credentials; DEV: neutralized         (destroy)
    publish    an open endpoint: READY                       -

Its own restore window begins with a snapshot that is submitted in the transaction that makes it READY.

Where the storage takes no snapshots, `capture` takes as long as a copy of all data.

The parent is held from acceptance until `capture` is recorded: nothing stops, starts, trims or deletes it in that time.
What only the off-host archive has is downloaded by `capture`, which needs nothing of the parent then, and no hold.
A server that is killed before it is open is started again.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.values import Capture, Server
from ramet.errors import Failed
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import Snapshot, SnapshotKind, base_for, newest
from ramet.operations.procedure import Next, NoState, Outcome, Wait, Work
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Creation,
    boot,
    finish,
    publish,
    recover,
    release_holds,
    repeats_from,
    source_of,
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
        found = self.captured(work, self.tools.server(work), self.neutralizes(work))
        if isinstance(found, Wait):
            return found
        captured, base = found

        def record(tx: sa.Connection) -> None:
            release_holds(tx, work)
            if base is not None and work.state.target is None:
                services.update_service(tx, work.subject, origin_snapshot_id=base.id, data_time=base.taken_at)

        return Next("recover", replace(work.state, capture=captured), changes=record)

    def neutralizes(self, work: Work[ForkState]) -> bool | None:
        """Return how the copy will be secured as soon as it runs; None: not at once."""
        return work.state.quiet

    def captured(
        self, work: Work[ForkState], server: Server, neutralize: bool | None = None
    ) -> tuple[Capture, Snapshot | None] | Wait:
        """Copy what was asked for into the volume of `server`; return the base snapshot with it, None without one."""
        if work.state.base_backup_id is not None:
            return self._captured_archived(work, server)
        base = self._base(work)
        if isinstance(base, Wait):
            return base
        parent = self.tools.service(work.state.parent_id)
        source = source_of(parent, base.id if base else None, work.state.target, neutralize=neutralize)
        progress = self.tools.backend.copies.make(server, source)
        if progress is not None:
            return Wait(0.2, progress)
        captured = self.tools.backend.restore.capture(server, source)
        return Wait(0.1, "the parent's server is not serving") if captured is None else (captured, base)

    def _captured_archived(self, work: Work[ForkState], server: Server) -> tuple[Capture, None] | Wait:
        parent = self.tools.service(work.state.parent_id)
        named = work.state.archive_name or parent.archived_as  # the parent may have been upgraded since
        parent = replace(parent, archived_as=named, pg_major=server.pg_major)
        source = source_of(parent, None, work.state.target, work.state.base_backup_id)
        progress = self.tools.backend.archive.fetch(server, source, PATIENCE_SECONDS)
        if progress is not None:
            return Wait(0, progress)
        captured = self.tools.backend.restore.capture(server, source)
        return Wait(0.1) if captured is None else (captured, None)

    def _base(self, work: Work[ForkState]) -> Snapshot | Wait | None:
        """Return the snapshot to start from; None for a fork of now; a Wait while it is being taken.

        Raises Failed when the one that was chosen is gone, and no earlier one leads to the target.
        """
        if work.state.strategy is ForkStrategy.NOW:
            return None
        parent_id, wanted, target = work.state.parent_id, work.state.base_id, work.state.target
        with self.tools.store.read() as tx:
            is_on_its_way = under_way(tx, parent_id, ProcedureName.SNAPSHOT)
            known = snapshots.list_snapshots(tx, parent_id)
        base = newest(known) if wanted is None else next((one for one in known if one.id == wanted), None)
        if base is None and target is not None:
            base = base_for(known, target)
        if base is None and wanted is not None and not is_on_its_way:
            raise Failed(
                "SNAPSHOT_LOST",
                f"Snapshot {wanted} of service {parent_id} could not be taken, or is gone",
                "Look at its operations, then fork once more.",
            )
        return base or Wait(0.02, "a snapshot of the parent")

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
            finish(tx, work, ready_at=self.tools.clock(), report=_report(work.state))
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


def _report(state: ForkState) -> dict[str, Any]:
    return {"capture": state.captured().facts, "recovery": state.recovery, "neutralised": state.neutralised}
