"""Optimize a service: collect fresh statistics for its planner while it serves.

step      leaves behind                                undo
analyze   statistics of all tables of all databases    -
"""

from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, finish
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import OptimizeState


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `optimize`."""

    def analyze(work: Work[OptimizeState]) -> Outcome:
        ended = tools.backend.restore.analyze(tools.server(work), PATIENCE_SECONDS)
        if ended is None:
            return Wait(0.2, "ANALYZE")
        return Done(replace(work.state, statistics=ended), changes=lambda tx: finish(tx, work))

    return procedure_of(
        ProcedureName.OPTIMIZE, {"analyze": analyze}, on_failed=lambda tx, work, _error: finish(tx, work)
    )
