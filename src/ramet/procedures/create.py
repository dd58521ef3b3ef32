"""Create an empty service.

step         leaves behind                        undo
initialize   a volume with an empty cluster       destroy
boot         a server, closed to clients          (destroy)
secure       database, roles, extensions          (destroy)
snapshot     the base of the restore window       (destroy)
publish      an open endpoint: READY              -
"""

from dataclasses import dataclass

import sqlalchemy as sa

from ramet.model.snapshot import SnapshotKind
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import Tools, boot, finish, recording, submit_preparation, take_snapshot


@dataclass(frozen=True)
class Create:
    """The steps of `create`."""

    tools: Tools

    def initialize(self, work: Work) -> Outcome:
        self.tools.backend.initialize(self.tools.server(work))
        return Next("boot")

    def boot_server(self, work: Work) -> Outcome:
        return boot(self.tools, work) or Next("secure")

    def secure(self, work: Work) -> Outcome:
        self.tools.backend.secure(self.tools.server(work), newborn=True, quiet=False)
        return Next("snapshot")

    def snapshot(self, work: Work) -> Outcome:
        taken = take_snapshot(self.tools, work, SnapshotKind.INITIAL)
        return taken if isinstance(taken, Wait) else Next("publish", changes=recording(taken))

    def publish(self, work: Work) -> Outcome:
        self.tools.backend.open(self.tools.server(work))

        def record(tx: sa.Connection) -> None:
            finish(tx, work, born_at=self.tools.clock())
            submit_preparation(tx, work.subject, work.state["snapshot_id"])

        return Done(changes=record)

    def destroy(self, work: Work) -> None:
        self.tools.backend.destroy(work.subject)

    def failed(self, tx: sa.Connection, work: Work, error: str) -> None:
        finish(tx, work, failed_at=self.tools.clock(), failure=error)


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `create`."""
    steps = Create(tools)
    return Procedure(
        name="create",
        first="initialize",
        steps={
            "initialize": steps.initialize,
            "boot": steps.boot_server,
            "secure": steps.secure,
            "snapshot": steps.snapshot,
            "publish": steps.publish,
        },
        undo={"initialize": steps.destroy},
        on_failed=steps.failed,
    )
