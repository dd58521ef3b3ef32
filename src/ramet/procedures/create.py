"""Create an empty service.

step         leaves behind                        undo
initialize   a volume with an empty cluster       destroy
boot         a server, closed to clients          (destroy)
secure       database, roles, extensions          (destroy)
snapshot     the base of the restore window       (destroy)
publish      an open endpoint: READY              -

A server that is killed before it is open is booted again.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from ramet.errors import Unavailable
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import (
    Tools,
    boot,
    finish,
    outliving_kills,
    recording,
    submit_preparation,
    take_snapshot,
)


@dataclass(frozen=True)
class Create:
    """The steps of `create`."""

    tools: Tools

    def initialize(self, work: Work) -> Outcome:
        self.tools.backend.servers.initialize(self.tools.server(work))
        return Next("boot")

    def boot_server(self, work: Work) -> Outcome:
        return boot(self.tools, work) or Next("publish" if work.state.get("is_based") else "secure")

    def secure(self, work: Work) -> Outcome:
        server, secure = self.tools.server(work), self.tools.backend.servers.secure
        found = outliving_kills(work, lambda: secure(server, is_new=True, neutralize=False), again="boot")
        return found if isinstance(found, Next) else Next("snapshot")

    def snapshot(self, work: Work) -> Outcome:
        taken = outliving_kills(work, lambda: self._take(work), again="boot")
        return taken if isinstance(taken, Next) else Next("publish", {"is_based": True}, changes=recording(taken))

    def _take(self, work: Work) -> Snapshot:
        taken = take_snapshot(self.tools, work, SnapshotKind.INITIAL)
        if isinstance(taken, Wait):
            raise Unavailable("SERVER_KILLED", f"The server of service {work.subject} was killed before it was open")
        return taken

    def publish(self, work: Work) -> Outcome:
        server = self.tools.server(work)
        killed = outliving_kills(work, lambda: self.tools.backend.servers.open(server), again="boot")
        if killed is not None:
            return killed

        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock())
            submit_preparation(tx, work.subject, work.state["snapshot_id"])

        return Done(changes=record)

    def destroy(self, work: Work) -> None:
        self.tools.backend.servers.destroy(work.subject)

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
