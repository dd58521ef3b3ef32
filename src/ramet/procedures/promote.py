"""Make a standby of a database elsewhere an independent service.

step      leaves behind or does                                                        undo
settle    waits for forks that copy from it                                            -
wait      waits until all that was asked for is replayed; it still follows             -
promote   ends recovery, on a new timeline; to be neutralized, the server runs
          without workers from before that until it is published                       - (it does not follow any more)
secure    the platform's roles, the database's name, the admin's password; the
          source's password is removed                                                 -
publish   an open endpoint: READY, to be read and written                              -

Until `promote` nothing has changed, and when it fails the service follows as before. Afterwards it is half promoted:
each step continues from what it finds, also when the promotion is requested again, and nothing else may open it.
"""

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.errors import Unavailable, Unseen
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import SnapshotKind
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, await_settled, boot, finish, server_of, submit_snapshot
from ramet.procedures.state import PromoteState
from ramet.store import services

_PAUSE_SECONDS = 0.05
_DOWN, _LEFT = "the server is not serving", "left_in_source"


class Promote(Steps):
    """The steps of `promote`."""

    name = ProcedureName.PROMOTE

    def settle(self, work: Work[PromoteState]) -> Outcome:
        return await_settled(self.tools, work) or Next("wait")

    def wait(self, work: Work[PromoteState]) -> Outcome:
        service, state = self.tools.service(work.subject), work.state
        server = server_of(service)
        try:
            left = self.tools.backend.followers.await_end(
                server, state.lsn, drain=state.drain, takes_place=state.takes_place
            )
        except Unseen:
            raise
        except Unavailable:
            clients = not service.half_promoted
            return boot(self.tools, work, server, clients=clients) or Wait(_PAUSE_SECONDS, _DOWN)
        if left is not None:
            return Wait(_PAUSE_SECONDS, left)
        return Next("promote", changes=lambda tx: services.update_service(tx, work.subject, half_promoted=True))

    def promote(self, work: Work[PromoteState]) -> Outcome:
        server = self.tools.server(work)
        try:
            left = self.tools.backend.followers.promote(server, PATIENCE_SECONDS, neutralize=work.state.quiet)
        except Unavailable:
            return boot(self.tools, work, server) or Wait(_PAUSE_SECONDS, _DOWN)
        return Next("secure") if left is None else Wait(_PAUSE_SECONDS, left)

    def secure(self, work: Work[PromoteState]) -> Outcome:
        server, take_over = self.tools.server(work), self.tools.backend.followers.take_over
        try:
            found = take_over(server, neutralize=work.state.quiet, takes_place=work.state.takes_place)
        except Unavailable:
            return boot(self.tools, work, server) or Wait(_PAUSE_SECONDS, _DOWN)
        state = replace(work.state, taken_over=found | work.state.taken_over)
        return Next("publish", state, durable=True)  # what clients make from then on is not neutralized

    def publish(self, work: Work[PromoteState]) -> Outcome:
        service = self.tools.service(work.subject)
        server = server_of(replace(service, upstream=None))
        try:
            self.tools.backend.followers.start_workers(server)
            self.tools.backend.servers.open(server)
        except Unavailable:
            return boot(self.tools, work, server) or Wait(_PAUSE_SECONDS, _DOWN)
        taken_over, followers = work.state.taken_over, self.tools.backend.followers
        if _LEFT not in taken_over and (left := followers.discard(work.subject)) is not None:
            # Recorded first: without the password another run would not find it.
            return Next(work.step, replace(work.state, taken_over={**taken_over, _LEFT: left}), durable=True)
        followers.forget(work.subject)
        report = {**(service.report or {}), "promoted": taken_over}

        def record(tx: sa.Connection) -> None:
            finish(tx, work, upstream=None, following=None, report=report, down_reason=None, half_promoted=False)
            submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)

        return Done(changes=record)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        """End the claim: the service follows as before, or is half promoted, which a second promotion ends."""
        found = services.get_service(tx, work.subject)
        is_half_done = found is not None and found.half_promoted
        reason = f"Its promotion is not complete: {error} Promote it again." if is_half_done else None
        finish(tx, work, down_reason=reason)
