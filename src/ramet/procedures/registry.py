"""All procedures, ready to run."""

from datetime import timedelta

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Procedure
from ramet.procedures import (
    aftercare,
    create,
    delete,
    delete_snapshot,
    drill,
    follow,
    follow_logical,
    fork,
    import_database,
    lifecycle,
    optimize,
    pooler,
    prepare,
    promote,
    promote_logical,
    recover,
    replica_sets,
    resize,
    set_wal_level,
    snapshot,
    try_upgrade,
    upgrade,
)
from ramet.procedures.servers import Tools


def all_procedures(tools: Tools, window: timedelta) -> list[Procedure]:
    """Return every procedure; `window` is how far back a service without restore settings can be restored."""
    return [
        create.procedure(tools),
        fork.procedure(tools),
        recover.procedure(tools),
        import_database.procedure(tools),
        try_upgrade.procedure(tools),
        upgrade.procedure(tools),
        follow.procedure(tools),
        promote.procedure(tools),
        follow_logical.procedure(tools),
        promote_logical.procedure(tools),
        lifecycle.stop(tools),
        lifecycle.start(tools),
        lifecycle.restart(tools),
        delete.procedure(tools),
        resize.procedure(tools),
        set_wal_level.procedure(tools),
        optimize.procedure(tools),
        pooler.procedure(tools, ProcedureName.POOLER),
        *replica_sets.procedures(tools),
        pooler.procedure(tools, ProcedureName.REPLICA_POOLER),
        snapshot.procedure(tools, window),
        delete_snapshot.procedure(tools),
        prepare.procedure(tools),
        aftercare.procedure(tools),
        drill.procedure(tools),
    ]
