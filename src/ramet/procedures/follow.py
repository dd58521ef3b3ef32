"""Create a service that is a physical standby of a database elsewhere.

step       leaves behind                                           undo
prepare    a volume, with the source's password                    destroy
fetch      a copy of the source's data, of one moment and later    (destroy)
boot       a standby that streams, closed to clients               (destroy)
snapshot   the base of the restore window                          (destroy)
publish    an open endpoint: READY, and read-only                  -

A copy that was interrupted begins again from nothing. Nothing is written in the standby, not even by the platform.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Next, Outcome, Wait, Work
from ramet.procedures.create import Based
from ramet.procedures.servers import PATIENCE_SECONDS, boot, finish, publish
from ramet.procedures.state import FollowState
from ramet.store import services

_PAUSE_SECONDS = 0.1


class Follow(Based):
    """The steps of `follow` that `create` does not have."""

    name = ProcedureName.FOLLOW

    def prepare(self, work: Work[FollowState]) -> Outcome:
        if work.state.sealed is not None:
            self.tools.backend.followers.keep(self.tools.server(work), work.state.sealed)
        return Next("fetch", replace(work.state, sealed=None))

    def fetch(self, work: Work[FollowState]) -> Outcome:
        state, fetch = work.state, self.tools.backend.followers.fetch
        fetched = fetch(self.tools.server(work), state.size_bytes, PATIENCE_SECONDS)
        if fetched.facts is None:
            return Wait(_PAUSE_SECONDS, fetched.progress)
        return Next("boot", replace(state, report={**state.report, "fetched": fetched.facts}))

    def after_boot(self, state: FollowState) -> str:
        return "publish" if state.is_based else "snapshot"

    def publish(self, work: Work[FollowState]) -> Outcome:
        server = self.tools.server(work)
        following = self.tools.backend.followers.observe(server)
        if following is None:  # nobody has looked for the superusers of the copy
            return boot(self.tools, work, server) or Wait(_PAUSE_SECONDS, "the server is not serving")

        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock(), report=work.state.report)
            services.record_following(tx, work.subject, following)

        return publish(self.tools, work, record)

    def destroy(self, work: Work[Any]) -> None:
        self.record_left(work, self.tools.backend.followers.discard(work.subject))
        super().destroy(work)

    undo_prepare = destroy
