"""Stop, start and restart a service.

stop      settle (wait for a restart that it interrupts, and for forks that copy from the service),
          stop its replicas, then itself: PAUSED
start     settle, boot, open: READY; its replicas are started then
restart   boot, open: a crashed server serves again

A server that is down when it is to be opened is started once more.
"""

from typing import Any

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.replicas import stop_replicas, submit_restarts
from ramet.procedures.servers import Steps, await_settled, boot, finish, stop_unopened
from ramet.procedures.state import Interrupting, Restartable
from ramet.store import services


class Stop(Steps):
    """The steps of `stop`."""

    name = ProcedureName.STOP

    def settle(self, work: Work[Interrupting]) -> Outcome:
        return await_settled(self.tools, work) or Next("stop")

    def stop(self, work: Work[Interrupting]) -> Outcome:
        stop_replicas(self.tools, work.subject)
        self.tools.backend.servers.stop(self.tools.server(work))
        return Done(changes=lambda tx: finish(tx, work, paused=True, down_reason=None))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, down_reason=f"It could not be paused: {error}")


class Starting(Steps):
    """The steps by which a server is started, open to its clients."""

    def boot(self, work: Work[Restartable]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), clients=True) or Next("open")

    def open(self, work: Work[Restartable]) -> Outcome:
        server = self.tools.server(work)
        starting = boot(self.tools, work, server, clients=True)  # the host may have lost its power since it was ready
        if starting is not None:
            return starting
        self.tools.backend.servers.open(server)
        return Done(changes=lambda tx: self.opened(tx, work))

    def opened(self, tx: sa.Connection, work: Work[Restartable]) -> None:
        """Record that the server serves."""
        finish(tx, work, paused=False, down_reason=None)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, paused=False, down_reason=error)


class Restart(Starting):
    """The steps of `restart`, by which the observer brings a crashed server back."""

    name = ProcedureName.RESTART


class Change(Starting):
    """The steps of a change of what a server can only start with: it is stopped, and started with that."""

    def stop(self, work: Work[Any]) -> Outcome:
        self.tools.backend.servers.stop(self.tools.server(work))
        return Next("boot")

    def undo_boot(self, work: Work[Any]) -> None:
        """Stop a server that was started with what is not recorded any more when this has failed."""
        stop_unopened(self.tools, work, self.tools.server(work))


class Start(Starting):
    """The steps of `start`."""

    name = ProcedureName.START

    def settle(self, work: Work[Interrupting]) -> Outcome:
        return await_settled(self.tools, work) or Next("boot")

    def opened(self, tx: sa.Connection, work: Work[Restartable]) -> None:
        super().opened(tx, work)
        services.forget_copies(tx, work.subject)
        submit_restarts(tx, work.subject)
