"""Complete the report of a READY fork, and run ANALYZE: autovacuum's statistics do not survive recovery.

step      leaves behind                                         undo
examine   the report's last facts                               -
analyze   fresh statistics, and a line about them in the report -

A fork that is paused or deleted before that is left alone, so a short-lived one never pays for ANALYZE.
"""

from typing import Any

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.operations.procedure import Done, Next, NoState, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, seconds_to_rest, server_of
from ramet.store import services


class Aftercare(Steps):
    """The steps of `aftercare`."""

    name = ProcedureName.AFTERCARE

    def examine(self, work: Work[NoState]) -> Outcome:
        fork = self.tools.service(work.subject)
        if status_of(fork) is not Status.READY:
            return Done()
        parent_id = None if fork.origin is None else fork.origin.service_id
        facts = self.tools.backend.restore.report_on_fork(server_of(fork), parent_id)
        return Next("analyze", changes=lambda tx: _add(tx, work, facts))

    def analyze(self, work: Work[NoState]) -> Outcome:
        fork = self.tools.service(work.subject)
        if status_of(fork) is not Status.READY:
            return Done()
        rest = seconds_to_rest(self.tools, fork)
        if rest > 0:
            return Wait(rest, "the new fork is left alone")
        ended = self.tools.backend.restore.analyze(server_of(fork), PATIENCE_SECONDS)
        if ended is None:
            return Wait(0.5, "ANALYZE")
        return Done(changes=lambda tx: _add(tx, work, {"statistics": ended}))


def _add(tx: sa.Connection, work: Work[NoState], facts: dict[str, Any]) -> None:
    fork = services.get_service(tx, work.subject, lock=True)
    if fork is not None and fork.report is not None:
        services.update_service(tx, work.subject, report={**fork.report, **facts})
