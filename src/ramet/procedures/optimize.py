"""Optimize a service: collect fresh statistics for its planner while it serves.

step      leaves behind                                undo
analyze   statistics of all tables of all databases    -
"""

from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, finish
from ramet.procedures.state import OptimizeState


class Optimize(Steps):
    """The step of `optimize`."""

    name = ProcedureName.OPTIMIZE

    def analyze(self, work: Work[OptimizeState]) -> Outcome:
        ended = self.tools.backend.restore.analyze(self.tools.server(work), PATIENCE_SECONDS)
        if ended is None:
            return Wait(0.2, "ANALYZE")
        return Done(replace(work.state, statistics=ended), changes=lambda tx: finish(tx, work))
