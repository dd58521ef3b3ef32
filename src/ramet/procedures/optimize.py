"""Optimize a service: fresh statistics for its planner, while it serves.

step      leaves behind                                undo
analyze   statistics of all tables of all databases    -
"""

from ramet.operations.procedure import Done, Outcome, Procedure, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, finish


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `optimize`."""

    def analyze(work: Work) -> Outcome:
        ended = tools.backend.restore.analyze(tools.server(work), PATIENCE_SECONDS)
        if ended is None:
            return Wait(0.2, "ANALYZE")
        return Done({"statistics": ended}, changes=lambda tx: finish(tx, work))

    return Procedure(
        name="optimize",
        first="analyze",
        steps={"analyze": analyze},
        on_failed=lambda tx, work, _error: finish(tx, work),
        deadline_seconds=86_400.0,
    )
