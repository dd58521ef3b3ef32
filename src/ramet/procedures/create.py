"""Create an empty service.

step         leaves behind                        undo
initialize   a volume with an empty cluster       destroy
boot         a server, closed to clients          (destroy)
secure       database, roles, extensions          (destroy)
snapshot     the base of the restore window,      (destroy)
             where the storage takes snapshots
publish      an open endpoint: READY              -

A server that is killed before it is open is started again.
"""

from typing import Any, ClassVar

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.errors import Unavailable
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import SnapshotKind
from ramet.operations.procedure import Next, Outcome, Wait, Work
from ramet.procedures.servers import (
    Creation,
    boot,
    finish,
    publish,
    repeats_from,
    submit_preparation,
    take_snapshot,
)
from ramet.procedures.state import CreateState
from ramet.store import snapshots


class Based(Creation):
    """What `create` shares with what else fills an empty volume: its start, credentials, and first snapshot."""

    after_secure: ClassVar[str] = "snapshot"

    def boot(self, work: Work[Any]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work)) or Next(self.after_boot(work.state))

    def after_boot(self, state: Any) -> str:
        """Return the step to go on with: the server may have been killed after a later one."""
        return "publish" if state.is_based else "secure"

    @repeats_from("boot")
    def secure(self, work: Work[Any]) -> Outcome:
        self.tools.backend.servers.secure(self.tools.server(work), is_new=True, neutralize=False)
        return Next(self.after_secure)

    @repeats_from("boot")
    def snapshot(self, work: Work[Any]) -> Outcome:
        if self.tools.backend.copies.are_needed():
            return Next("publish", replace(work.state, is_based=True))
        taken = take_snapshot(self.tools, work, SnapshotKind.INITIAL)
        if isinstance(taken, Wait):
            raise Unavailable("SERVER_KILLED", f"The server of service {work.subject} was killed before it was open")
        state = replace(work.state, is_based=True)
        return Next("publish", state, changes=lambda tx: snapshots.insert_snapshot(tx, taken))

    def publish(self, work: Work[Any]) -> Outcome:
        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock(), report=work.state.report or None)
            submit_preparation(tx, work.subject, work.state.snapshot_id)

        return publish(self.tools, work, record)


class Create(Based):
    """The steps of `create`."""

    name = ProcedureName.CREATE
    undo_initialize = Based.destroy

    def initialize(self, work: Work[CreateState]) -> Outcome:
        self.tools.backend.servers.initialize(self.tools.server(work))
        return Next("boot")
