"""Delete a service.

step      waits for or does                                              undo
settle    the operation that it interrupts, and forks that copy from it  -
destroy   what follows it, server, volume, archive and snapshots are gone: 404            - (there is no way back)
"""

import sqlalchemy as sa

from ramet.operations.procedure import Done, Next, Outcome, Procedure, Work
from ramet.procedures.followers import call_off_births, destroy_followers, forget_followers
from ramet.procedures.servers import Tools, await_settled, finish
from ramet.store import snapshots


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `delete`."""

    def settle(work: Work) -> Outcome:
        call_off_births(tools, work.subject)
        return await_settled(tools, work) or Next("destroy")

    def destroy(work: Work) -> Outcome:
        destroy_followers(tools, work.subject)
        tools.backend.servers.destroy(work.subject)

        def record(tx: sa.Connection) -> None:
            forget_followers(tx, tools, work.subject)
            snapshots.delete_snapshots_of(tx, work.subject)
            finish(tx, work, deleted_at=tools.clock())

        return Done(changes=record)

    return Procedure(
        name="delete",
        first="settle",
        steps={"settle": settle, "destroy": destroy},
        on_failed=lambda tx, work, error: finish(tx, work, down_reason=f"It could not be deleted: {error}"),
    )
