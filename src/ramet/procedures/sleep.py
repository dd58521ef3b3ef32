"""Let a service fall asleep, and change when it does.

sleep      settle   nothing; ends it while others copy from the service         -
           stop     a stopped server, unless a client is connected; its         (serve)
                    endpoint accepts clients, which wait. READY for clients
set_sleep  settle   waits for forks that copy from it                           -
           stop     the server and its endpoint: it is down for a short time    -
           boot     the server, which listens on another port                   (stop)
           open     the endpoint at the same address as before; READY again     -

A client wakes a service by `start`. Whether one is connected is asked in the same moment in which the endpoint
begins to let clients wait, so none is turned away. If a service cannot be stopped, its clients are passed on again. If
`set_sleep` fails, the observer restarts the server where it listened before.
"""

from dataclasses import replace as with_values
from typing import Any

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.lifecycle import Change
from ramet.procedures.servers import Steps, await_settled, finish
from ramet.procedures.state import Interrupting, SetSleepState
from ramet.store import services


class Sleep(Steps):
    """The steps of `sleep`."""

    name = ProcedureName.SLEEP

    def settle(self, work: Work[Interrupting]) -> Outcome:
        if await_settled(self.tools, work) is None:
            return Next("stop")
        return Done(changes=lambda tx: finish(tx, work))  # to wait could last: forks may overlap without end

    def stop(self, work: Work[Interrupting]) -> Outcome:
        if self.tools.backend.endpoints.fall_asleep(self.tools.server(work)):
            return Done(changes=lambda tx: finish(tx, work, paused=True, asleep=True, down_reason=None))
        return Done(changes=lambda tx: finish(tx, work))

    def undo_stop(self, work: Work[Interrupting]) -> None:
        self.tools.backend.endpoints.serve(self.tools.server(work))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, down_reason=f"It could not fall asleep: {error}")


class SetSleep(Change):
    """The steps of `set_sleep`. The row has the new values already."""

    name = ProcedureName.SET_SLEEP

    def settle(self, work: Work[SetSleepState]) -> Outcome:
        return await_settled(self.tools, work) or Next("stop")

    def stop(self, work: Work[SetSleepState]) -> Outcome:
        before = with_values(self.tools.server(work), server_port=work.state.port_before)
        self.tools.backend.servers.stop(before)
        return Next("boot")

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, paused=False, down_reason=f"When it sleeps could not be changed: {error}")
        before = {"sleep_after_seconds": work.state.seconds_before, "server_port": work.state.port_before}
        services.update_service(tx, work.subject, **before)
