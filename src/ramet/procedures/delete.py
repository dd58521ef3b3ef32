"""Delete a service.

step      waits for or does                                                         undo
settle    the operation that it interrupts, and forks that copy from the service    -
destroy   removes its read replicas, server, volume, archive and snapshots: 404     - (the data is gone)
"""

import sqlalchemy as sa

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Work
from ramet.procedures.replicas import cancel_creations, destroy_replicas, mark_sets_deleted
from ramet.procedures.servers import Tools, await_settled, finish
from ramet.procedures.spec import procedure_of
from ramet.procedures.state import Interrupting
from ramet.store import snapshots


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `delete`."""

    def settle(work: Work[Interrupting]) -> Outcome:
        cancel_creations(tools, work.subject)
        return await_settled(tools, work) or Next("destroy")

    def destroy(work: Work[Interrupting]) -> Outcome:
        destroy_replicas(tools, work.subject)
        tools.backend.servers.destroy(work.subject)

        def record(tx: sa.Connection) -> None:
            mark_sets_deleted(tx, tools, work.subject)
            snapshots.delete_snapshots_of(tx, work.subject)
            finish(tx, work, deleted_at=tools.clock())

        return Done(changes=record)

    return procedure_of(
        ProcedureName.DELETE,
        {"settle": settle, "destroy": destroy},
        on_failed=lambda tx, work, error: finish(tx, work, down_reason=f"It could not be deleted: {error}"),
    )
