"""Bring a service's pooler to what its row says: running at its port, or gone.

step    leaves behind                                 undo
follow  the pooler that the row asks for, or none     end it, where it was being enabled
"""

import sqlalchemy as sa

from ramet.operations.procedure import Done, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import Tools, let_go, server_of
from ramet.store import services


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `pooler`. It holds its service, so that nothing stops or deletes that meanwhile."""

    def follow(work: Work) -> Outcome:
        wanted = tools.service(work.subject)
        if wanted.pooler_port is None:
            tools.backend.poolers.stop(work.subject)
        elif not wanted.paused:
            tools.backend.poolers.start([server_of(wanted)], wanted.pooler_port)
        if tools.service(work.subject).pooler_port != wanted.pooler_port:
            return Wait(0, f"the port is {wanted.pooler_port} no more")
        return Done(changes=lambda tx: let_go(tx, work))

    def end(work: Work) -> None:
        if work.state["enabling"]:
            tools.backend.poolers.stop(work.subject)

    def failed(tx: sa.Connection, work: Work, _error: str) -> None:
        let_go(tx, work)
        if work.state["enabling"]:
            services.update_service(tx, work.subject, pooler_port=None)

    return Procedure(name="pooler", first="follow", steps={"follow": follow}, undo={"follow": end}, on_failed=failed)
