"""Change the wal_level of a service, which takes a restart.

step     leaves behind or does                                            undo
settle   waits for forks that copy from it, then records the new level    -
stop     its replicas, and the server: it is down for a short time        -
boot     a server of the new level, of a paused service too; the admin    the server is stopped unless the level is
         may replicate, or may not any more                               in force
open     READY again                                                      -

PostgreSQL does not start with `replica` while there are logical slots. They are looked for after the stop, when
no client can make one any more. If the change fails before the server is ready and the admin may replicate, the old
level is recorded again, and the observer restarts the server with that. Afterwards the new level is in force and stays:
clients may have made slots that need it.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.errors import Failed
from ramet.model.procedures import ProcedureName
from ramet.model.wal_level import WalLevel, with_wal_level
from ramet.operations.procedure import Next, Outcome, Work
from ramet.procedures.lifecycle import Change
from ramet.procedures.replicas import stop_replicas, submit_restarts
from ramet.procedures.servers import await_settled, finish
from ramet.procedures.state import Restartable, WalLevelState
from ramet.store import services


class SetWalLevel(Change):
    """The steps of `set_wal_level`."""

    name = ProcedureName.SET_WAL_LEVEL

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

    def boot(self, work: Work[Any]) -> Outcome:
        outcome = super().boot(work)
        if not isinstance(outcome, Next) or outcome.step != "open":
            return outcome
        self.tools.backend.replication.permit(self.tools.server(work))
        return Next("open", replace(work.state, is_in_force=True), durable=True)

    def undo_boot(self, work: Work[WalLevelState]) -> None:
        if not work.state.is_in_force:
            super().undo_boot(work)

    def open(self, work: Work[Any]) -> Outcome:
        # The boot of an earlier release left what this one permits to the opening.
        return super().open(work) if work.state.is_in_force else Next("boot")

    def opened(self, tx: sa.Connection, work: Work[Restartable]) -> None:
        super().opened(tx, work)
        submit_restarts(tx, work.subject)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, paused=False, down_reason=f"The change of its wal_level failed: {error}")
        if not work.state.is_in_force:
            _record(tx, work, work.state.before)


def _record(tx: sa.Connection, work: Work[WalLevelState], level: WalLevel) -> None:
    service = services.get_service(tx, work.subject, lock=True)
    if service is not None:
        services.update_service(tx, work.subject, settings=with_wal_level(service.settings, level))
