"""Stop, start and restart a service.

stop      settle (wait for a restart that it calls off, and for forks that copy from it),
          stop, after what follows it: PAUSED
start     settle, boot, open: READY; what follows it is started then
restart   boot, open: a crashed server serves again
"""

import sqlalchemy as sa

from ramet.operations.procedure import Done, Next, Outcome, Procedure, Step, Work
from ramet.procedures.followers import stop_followers, submit_restarts
from ramet.procedures.servers import Tools, await_settled, finish, reboot


def stop(tools: Tools) -> Procedure:
    """Return the procedure `stop`."""

    def settle(work: Work) -> Outcome:
        return await_settled(tools, work) or Next("stop")

    def stop_server(work: Work) -> Outcome:
        stop_followers(tools, work.subject)
        tools.backend.servers.stop(tools.server(work))
        return Done(changes=lambda tx: finish(tx, work, paused=True, down_reason=None))

    return Procedure(
        name="stop",
        first="settle",
        steps={"settle": settle, "stop": stop_server},
        on_failed=lambda tx, work, error: finish(tx, work, down_reason=f"It could not be paused: {error}"),
    )


def start(tools: Tools) -> Procedure:
    """Return the procedure `start`."""

    def settle(work: Work) -> Outcome:
        return await_settled(tools, work) or Next("boot")

    def open_all(work: Work) -> Outcome:
        tools.backend.servers.open(tools.server(work))
        return Done(changes=lambda tx: resumed(tx, work))

    def resumed(tx: sa.Connection, work: Work) -> None:
        finish(tx, work, paused=False, down_reason=None)
        submit_restarts(tx, work.subject)

    return Procedure(
        name="start",
        first="settle",
        steps={"settle": settle, **_booting(tools), "open": open_all},
        on_failed=_stays_down,
    )


def restart(tools: Tools) -> Procedure:
    """Return the procedure `restart`, by which the observer brings a crashed server back."""
    return Procedure(name="restart", first="boot", steps=_booting(tools), on_failed=_stays_down, unasked=True)


def _booting(tools: Tools) -> dict[str, Step]:
    def boot_server(work: Work) -> Outcome:
        return reboot(tools, work) or Next("open")

    def open_server(work: Work) -> Outcome:
        tools.backend.servers.open(tools.server(work))
        return Done(changes=lambda tx: finish(tx, work, paused=False, down_reason=None))

    return {"boot": boot_server, "open": open_server}


def _stays_down(tx: sa.Connection, work: Work, error: str) -> None:
    finish(tx, work, paused=False, down_reason=error)
