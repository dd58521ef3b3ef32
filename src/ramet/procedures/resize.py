"""Resize a service.

step     leaves behind or does                                            undo
settle   waits for forks that copy from it, then records the new size     -
apply    limits and settings that can change while it serves              those of before
stop     if some cannot: the server is down for a short time              -
boot     a server of the new size, of a paused service too                the server is stopped
open     READY again                                                      -

A client that resizes a paused service waits for READY (docs/compatibility.md, rule 26), so the service is resumed with
its new size: docs/decisions/0018-resize-of-a-paused-service.md.

If it fails, the old size is recorded again. A server that still serves gets that back at once; the observer restarts
one that is down with that. A server that was started with the new size is stopped: while it runs, it may be unable to
take the old size.
"""

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.servers import RESIZE_UNDER_WAY
from ramet.errors import Unavailable
from ramet.model.procedures import ProcedureName
from ramet.model.size import Size
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.lifecycle import Change
from ramet.procedures.replicas import submit_restarts
from ramet.procedures.servers import await_settled, ends_though_failed, finish
from ramet.procedures.state import ResizeState, Restartable, StoredSize
from ramet.store import services


class Resize(Change):
    """The steps of `resize`."""

    name = ProcedureName.RESIZE

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

    def undo_apply(self, work: Work[ResizeState]) -> None:
        if self.tools.service(work.subject).paused:
            return
        before = replace(self.tools.server(work), size=Size(*work.state.before))
        try:
            with ends_though_failed(work):
                self.tools.backend.servers.resize(before)
        except Unavailable as error:
            if error.code != RESIZE_UNDER_WAY:  # the rest follows by itself
                raise

    def opened(self, tx: sa.Connection, work: Work[Restartable]) -> None:
        before = services.get_service(tx, work.subject)
        super().opened(tx, work)
        if before is not None and before.paused:
            submit_restarts(tx, work.subject)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, paused=False, down_reason=f"It could not be resized: {error}")
        _record_size(tx, work, work.state.before)


def _record_size(tx: sa.Connection, work: Work[Any], size: StoredSize) -> None:
    services.update_service(tx, work.subject, cpu_millis=size[0], memory_gbs=size[1])
