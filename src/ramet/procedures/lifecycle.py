"""Stop, start and restart a service.

stop      settle (wait for a restart that it interrupts, and for forks that copy from the service),
          stop its replicas, then itself: PAUSED
start     settle, boot, open: READY; its replicas are started then
restart   boot, open: a crashed server serves again
"""

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Step, Work
from ramet.procedures.replicas import stop_replicas, submit_restarts
from ramet.procedures.servers import Tools, await_settled, boot, finish
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import Interrupting, Restartable


def stop(tools: Tools) -> Procedure:
    """Return the procedure `stop`."""

    def settle(work: Work[Interrupting]) -> Outcome:
        return await_settled(tools, work) or Next("stop")

    def stop_server(work: Work[Interrupting]) -> Outcome:
        stop_replicas(tools, work.subject)
        tools.backend.servers.stop(tools.server(work))
        return Done(changes=lambda tx: finish(tx, work, paused=True, down_reason=None))

    return procedure_of(
        ProcedureName.STOP,
        {"settle": settle, "stop": stop_server},
        on_failed=lambda tx, work, error: finish(tx, work, down_reason=f"It could not be paused: {error}"),
    )


def start(tools: Tools) -> Procedure:
    """Return the procedure `start`."""

    def settle(work: Work[Interrupting]) -> Outcome:
        return await_settled(tools, work) or Next("boot")

    def open_all(work: Work[Interrupting]) -> Outcome:
        tools.backend.servers.open(tools.server(work))
        return Done(changes=lambda tx: resumed(tx, work))

    def resumed(tx: sa.Connection, work: Work[Interrupting]) -> None:
        _serves(tx, work)
        submit_restarts(tx, work.subject)

    steps = {"settle": settle, **_booting(tools), "open": open_all}
    return procedure_of(ProcedureName.START, steps, on_failed=_stays_down)


def restart(tools: Tools) -> Procedure:
    """Return the procedure `restart`, by which the observer brings a crashed server back."""
    return procedure_of(ProcedureName.RESTART, _booting(tools), on_failed=_stays_down)


def _booting(tools: Tools) -> dict[str, Step]:
    def boot_server(work: Work[Restartable]) -> Outcome:
        return boot(tools, work, tools.server(work), clients=True) or Next("open")

    def open_server(work: Work[Restartable]) -> Outcome:
        tools.backend.servers.open(tools.server(work))
        return Done(changes=lambda tx: _serves(tx, work))

    return {"boot": boot_server, "open": open_server}


def _serves(tx: sa.Connection, work: Work[Restartable]) -> None:
    finish(tx, work, paused=False, down_reason=None)


def _stays_down(tx: sa.Connection, work: Work[Restartable], error: str) -> None:
    finish(tx, work, paused=False, down_reason=error)
