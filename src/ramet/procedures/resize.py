"""Resize a service.

step     leaves behind or does                                            undo
settle   waits for forks that copy from it, then records the new size     -
apply    limits and settings that can change while it serves              -
stop     if some cannot: the server is down for a short time              -
boot     a server of the new size, of a paused service too                -
open     READY again

A client that resizes a paused service waits for READY (docs/compatibility.md, rule 26), so the service is resumed with
its new size: docs/decisions/0018-resize-of-a-paused-service.md.

Nothing is undone step by step: if it fails, the old size is recorded again, and the observer restarts the server with
that.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Work
from ramet.procedures.replicas import submit_restarts
from ramet.procedures.servers import Tools, await_settled, boot, finish
from ramet.procedures.spec import procedure_of, steps_of
from ramet.procedures.state import ResizeState, StoredSize
from ramet.store import services


@dataclass(frozen=True)
class Resize:
    """The steps of `resize`."""

    tools: Tools

    def settle(self, work: Work[ResizeState]) -> Outcome:
        return await_settled(self.tools, work) or Next(
            "apply", changes=lambda tx: _record_size(tx, work, work.state.after)
        )

    def apply(self, work: Work[ResizeState]) -> Outcome:
        if self.tools.service(work.subject).paused:
            return Next("boot")
        if self.tools.backend.servers.resize(self.tools.server(work)):
            return Done(changes=lambda tx: finish(tx, work))
        return Next("stop")

    def stop(self, work: Work[ResizeState]) -> Outcome:
        self.tools.backend.servers.stop(self.tools.server(work))
        return Next("boot")

    def boot(self, work: Work[ResizeState]) -> Outcome:
        return boot(self.tools, work, self.tools.server(work), clients=True) or Next("open")

    def open(self, work: Work[ResizeState]) -> Outcome:
        self.tools.backend.servers.open(self.tools.server(work))
        resumes = self.tools.service(work.subject).paused
        return Done(changes=lambda tx: self._opened(tx, work, resumes=resumes))

    def _opened(self, tx: sa.Connection, work: Work[ResizeState], *, resumes: bool) -> None:
        finish(tx, work, paused=False, down_reason=None)
        if resumes:
            submit_restarts(tx, work.subject)

    def failed(self, tx: sa.Connection, work: Work[ResizeState], error: str) -> None:
        finish(tx, work, paused=False, down_reason=f"It could not be resized: {error}")
        _record_size(tx, work, work.state.before)


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `resize`."""
    steps = Resize(tools)
    return procedure_of(
        ProcedureName.RESIZE,
        steps_of(ProcedureName.RESIZE, steps),
        on_failed=steps.failed,
    )


def _record_size(tx: sa.Connection, work: Work[Any], size: StoredSize) -> None:
    services.update_service(tx, work.subject, cpu_millis=size[0], memory_gbs=size[1])
