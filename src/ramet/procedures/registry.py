"""All procedures by name, and the step that each begins with."""

from datetime import timedelta

from ramet.operations.procedure import Procedure
from ramet.procedures import (
    aftercare,
    create,
    delete,
    delete_snapshot,
    drill,
    fork,
    lifecycle,
    optimize,
    pooler,
    prepare,
    resize,
    snapshot,
)
from ramet.procedures.replica import replica_procedures
from ramet.procedures.servers import Tools

FIRST_STEPS = {
    "create": "initialize",
    "fork": "capture",
    "stop": "settle",
    "start": "settle",
    "restart": "boot",
    "delete": "settle",
    "resize": "settle",
    "optimize": "analyze",
    "pooler": "follow",
    "create_replicas": "replicate",
    "resize_replicas": "stop",
    "restart_replicas": "boot",
    "delete_replicas": "destroy",
    "replica_pooler": "follow",
    "snapshot": "take",
    "delete_snapshot": "forget",
    "prepare": "rest",
    "aftercare": "examine",
    "drill": "choose",
}


def all_procedures(tools: Tools, window: timedelta) -> list[Procedure]:
    """Return every procedure, ready to run."""
    return [
        create.procedure(tools),
        fork.procedure(tools),
        lifecycle.stop(tools),
        lifecycle.start(tools),
        lifecycle.restart(tools),
        delete.procedure(tools),
        resize.procedure(tools),
        optimize.procedure(tools),
        pooler.procedure(tools),
        *replica_procedures(tools),
        snapshot.procedure(tools, window),
        delete_snapshot.procedure(tools),
        prepare.procedure(tools),
        aftercare.procedure(tools),
        drill.procedure(tools),
    ]
