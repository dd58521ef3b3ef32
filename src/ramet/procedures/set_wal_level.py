"""Change the wal_level of a service, which takes a restart.

step     leaves behind or does                                            undo
settle   waits for forks that copy from it, then records the new level    -
stop     its replicas, and the server: it is down for a short time        -
boot     a server of the new level, of a paused service too               -
open     the admin may replicate, or may not any more; READY again        -

PostgreSQL does not start with `replica` while there are logical slots. They are looked for after the stop, when
no client can make one any more. If the change fails, the old level is recorded again, and the observer restarts the
server.
"""

from dataclasses import dataclass

import sqlalchemy as sa

from ramet.errors import Failed
from ramet.model.procedures import ProcedureName
from ramet.model.wal_level import WalLevel, with_wal_level
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Work
from ramet.procedures.replicas import stop_replicas, submit_restarts
from ramet.procedures.servers import Tools, await_settled, boot, finish
from ramet.procedures.spec import procedure_of, steps_of
from ramet.procedures.state import WalLevelState
from ramet.store import services


@dataclass(frozen=True)
class SetWalLevel:
    """The steps of `set_wal_level`."""

    tools: Tools

    def settle(self, work: Work[WalLevelState]) -> Outcome:
        return await_settled(self.tools, work) or Next("stop", changes=lambda tx: _record(tx, work, work.state.after))

    def stop(self, work: Work[WalLevelState]) -> Outcome:
        server = self.tools.server(work)
        # A replica must allow as many senders as its primary, and one of an earlier release does not: all start again.
        stop_replicas(self.tools, work.subject)
        if not self.tools.service(work.subject).paused:
            self.tools.backend.servers.stop(server)
        if work.state.after is WalLevel.REPLICA:
            names = [slot.name for slot in self.tools.backend.replication.slots(server).slots]
            if names:
                raise Failed("REPLICATION_SLOTS_EXIST", f"It has the replication slots {', '.join(names)}")
        return Next("boot")

    def boot(self, work: Work[WalLevelState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), clients=True) or Next("open")

    def open(self, work: Work[WalLevelState]) -> Outcome:
        server = self.tools.server(work)
        self.tools.backend.replication.permit(server)
        self.tools.backend.servers.open(server)
        return Done(changes=lambda tx: _opened(tx, work))

    def failed(self, tx: sa.Connection, work: Work[WalLevelState], error: str) -> None:
        finish(tx, work, paused=False, down_reason=f"Its wal_level could not be changed: {error}")
        _record(tx, work, work.state.before)


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `set_wal_level`."""
    steps = SetWalLevel(tools)
    return procedure_of(
        ProcedureName.SET_WAL_LEVEL,
        steps_of(ProcedureName.SET_WAL_LEVEL, steps),
        on_failed=steps.failed,
    )


def _opened(tx: sa.Connection, work: Work[WalLevelState]) -> None:
    finish(tx, work, paused=False, down_reason=None)
    submit_restarts(tx, work.subject)


def _record(tx: sa.Connection, work: Work[WalLevelState], level: WalLevel) -> None:
    service = services.get_service(tx, work.subject, lock=True)
    if service is not None:
        services.update_service(tx, work.subject, settings=with_wal_level(service.settings, level))
