"""Make a service that receives the changes of a database elsewhere independent.

step      leaves behind or does                                                            undo
settle    waits for forks that copy from it                                                -
finish    applies all that the source had committed, carries the sequences over, and ends
          the subscription; what stays in a source that is away by then is reported        -
publish   the service follows nothing                                                      -

Until the end of `finish` the service follows as before, also when it fails. It accepts connections all the time.
"""

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.errors import Unavailable
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, await_settled, boot, finish
from ramet.procedures.state import PromoteState

_PAUSE_SECONDS = 0.1


class PromoteLogical(Steps):
    """The steps of `promote_logical`."""

    name = ProcedureName.PROMOTE_LOGICAL

    def settle(self, work: Work[PromoteState]) -> Outcome:
        return await_settled(self.tools, work) or Next("finish")

    def finish(self, work: Work[PromoteState]) -> Outcome:
        server = self.tools.server(work)
        try:
            ended = self.tools.backend.subscriptions.finish(server, work.operation_id, PATIENCE_SECONDS)
        except Unavailable as error:
            return boot(self.tools, work, server, clients=True) or Wait(_PAUSE_SECONDS, str(error))
        if ended.facts is None:
            return Wait(_PAUSE_SECONDS, ended.progress)
        state = replace(work.state, taken_over=ended.facts | work.state.taken_over)
        return Next("publish", state, durable=True)  # which forgets what was found

    def publish(self, work: Work[PromoteState]) -> Outcome:
        self.tools.backend.subscriptions.discard(work.subject)
        service = self.tools.service(work.subject)
        report = {**(service.report or {}), "promoted": work.state.taken_over}

        def record(tx: sa.Connection) -> None:
            finish(tx, work, upstream=None, following=None, report=report, down_reason=None)

        return Done(changes=record)
