"""Optimize a service: collect fresh statistics for its planner while it serves.

step      leaves behind                                undo
analyze   statistics of all tables of all databases    -

A server that is down, as after a restart of the host, is started: nothing else does that during an operation.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, boot, finish, repeats_from
from ramet.procedures.state import OptimizeState


class Optimize(Steps):
    """The step of `optimize`."""

    name = ProcedureName.OPTIMIZE

    @repeats_from()
    def analyze(self, work: Work[OptimizeState]) -> Outcome:
        server, servers = self.tools.server(work), self.tools.backend.servers
        if work.state.opens:
            booting = boot(self.tools, work, server, clients=True)
            if booting is not None:
                return booting
            servers.open(server)
            return Next("analyze", replace(work.state, opens=False))
        if not servers.inspect(server).serving:
            # A server that serves may not be open yet: its pooler and its endpoint are started after it.
            return Next("analyze", replace(work.state, opens=True), durable=True)
        ended = self.tools.backend.restore.analyze(server, PATIENCE_SECONDS)
        if ended is None:
            return Wait(0.2, "ANALYZE")
        return Done(replace(work.state, statistics=ended), changes=lambda tx: finish(tx, work))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, down_reason=error)
