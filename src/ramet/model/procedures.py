"""The changes that a service goes through, as data: one table that every layer reads.

What the steps do is in `ramet.procedures`, a file for each procedure. The names of procedures and steps are stored:
renaming one is a migration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ramet.model.status import ReplicaSetStatus, Status

_DAY_SECONDS = 86_400.0


class ProcedureName(StrEnum):
    """The procedures, as they are stored and shown to clients."""

    CREATE = "create"
    FORK = "fork"
    RECOVER = "recover"
    IMPORT = "import"
    TRY_UPGRADE = "try_upgrade"
    UPGRADE = "upgrade"
    FOLLOW = "follow"
    COPY_AGAIN = "copy_again"
    REPLACE_COPY = "replace_copy"
    PROMOTE = "promote"
    FOLLOW_LOGICAL = "follow_logical"
    PROMOTE_LOGICAL = "promote_logical"
    RESTORE = "restore"
    STOP = "stop"
    START = "start"
    RESTART = "restart"
    RESIZE = "resize"
    SET_WAL_LEVEL = "set_wal_level"
    DELETE = "delete"
    OPTIMIZE = "optimize"
    POOLER = "pooler"
    CREATE_REPLICAS = "create_replicas"
    RESIZE_REPLICAS = "resize_replicas"
    RESTART_REPLICAS = "restart_replicas"
    REBUILD_REPLICAS = "rebuild_replicas"
    DELETE_REPLICAS = "delete_replicas"
    REPLICA_POOLER = "replica_pooler"
    SNAPSHOT = "snapshot"
    DELETE_SNAPSHOT = "delete_snapshot"
    PREPARE = "prepare"
    AFTERCARE = "aftercare"
    DRILL = "drill"


@dataclass(frozen=True)
class Spec:
    """What is known of a procedure without running it.

    `steps` are its steps in order, each with its title. `status` and `set_status` are what a service and a read replica
    set show while it runs; None: it does not claim them. `creates`: what it is about did not exist before.
    A `background` procedure begins when nothing else is due. One with `is_low_priority` lets what clients wait for run
    first, for a minute at most. It is undone when a step makes no progress for `deadline_seconds`.
    It does not begin while one that it `yields_to` is under way; it cancels the ones that it `interrupts`.
    """

    name: ProcedureName
    title: str
    steps: Mapping[str, str]
    status: Status | None = None
    set_status: ReplicaSetStatus | None = None
    creates: bool = False
    background: bool = False
    is_low_priority: bool = False
    deadline_seconds: float = 600.0
    yields_to: frozenset[ProcedureName] = frozenset()
    interrupts: frozenset[ProcedureName] = frozenset()

    @property
    def first_step(self) -> str:
        """The step that it begins with."""
        return next(iter(self.steps))


_BOOT, _OPEN = "Start the server", "Open the endpoint"
_SET_SERVES = {"boot": "Start the servers", "publish": _OPEN}
_ENDED_BY_DELETE = frozenset({
    ProcedureName.CREATE, ProcedureName.FORK, ProcedureName.IMPORT, ProcedureName.FOLLOW,
    ProcedureName.COPY_AGAIN, ProcedureName.REPLACE_COPY, ProcedureName.PROMOTE, ProcedureName.FOLLOW_LOGICAL,
    ProcedureName.PROMOTE_LOGICAL, ProcedureName.RECOVER, ProcedureName.RESTART, ProcedureName.TRY_UPGRADE,
})  # fmt: skip
_SPECS = (
    Spec(
        ProcedureName.CREATE,
        "Create",
        {
            "initialize": "Create an empty cluster",
            "boot": _BOOT,
            "secure": "Set its credentials",
            "snapshot": "Take the first snapshot",
            "publish": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
    ),
    Spec(
        ProcedureName.FORK,
        "Fork",
        {
            "capture": "Copy the parent's data",
            "recover": "Recover to the restore point",
            "boot": _BOOT,
            "secure": "Set its own credentials",
            "publish": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
    ),
    Spec(
        ProcedureName.RECOVER,
        "Recover from the archive",
        {
            "choose": "Choose the base backup",
            "fetch": "Download from the archive",
            "capture": "Create the volume",
            "recover": "Recover to the restore point",
            "boot": "Start the server for the first time",
            "stop": "Stop it",
            "start": _BOOT,
            "open": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.IMPORT,
        "Import",
        {
            "initialize": "Create an empty cluster",
            "fetch": "Copy the source with pg_dump",
            "boot": _BOOT,
            "secure": "Set its credentials",
            "load": "Load the copy with pg_restore",
            "analyze": "Collect statistics",
            "snapshot": "Take the first snapshot",
            "publish": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.TRY_UPGRADE,
        "Try an upgrade",
        {
            "capture": "Copy the service's data",
            "recover": "Recover it",
            "boot": "Start the present version",
            "survey": "Count rows and plan statements",
            "prepare": "Prepare the data",
            "stop": "Stop the present version",
            "upgrade": "Run pg_upgrade",
            "start": "Start the new version",
            "complete": "Complete the new version",
            "analyze": "Collect statistics",
            "compare": "Compare rows and plans",
            "secure": "Set its own credentials",
            "end": "Remove the fork, or keep it",
        },
        Status.CONFIGURING,
        creates=True,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.UPGRADE,
        "Upgrade",
        {
            "settle": "Wait for other operations",
            "stop": "Stop the server",
            "copy": "Copy its data",
            "boot": "Start the copy",
            "prepare": "Prepare the copy",
            "halt": "Stop the copy",
            "upgrade": "Run pg_upgrade",
            "start": "Start the new version",
            "complete": "Complete the new version",
            "analyze": "Collect statistics",
            "close": "Stop the new version",
            "set_aside": "Set the data of before aside",
            "take_over": "Take the new data over",
            "serve": _BOOT,
            "open": _OPEN,
        },
        Status.UPGRADING,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.FOLLOW,
        "Follow",
        {
            "prepare": "Create the volume",
            "fetch": "Copy the source with pg_basebackup",
            "boot": "Start the standby",
            "snapshot": "Take the first snapshot",
            "publish": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.COPY_AGAIN,
        "Copy the source again",
        {"fetch": "Copy the source with pg_basebackup"},
        Status.READY,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.REPLACE_COPY,
        "Follow with the new copy",
        {
            "settle": "Wait for other operations",
            "keep": "Take a snapshot of the old state",
            "replace": "Put the new copy in place",
            "boot": "Start the standby",
            "snapshot": "Take the first snapshot",
            "open": _OPEN,
        },
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.PROMOTE,
        "Promote",
        {
            "settle": "Wait for other operations",
            "wait": "Wait for the source's last changes",
            "promote": "End recovery",
            "secure": "Set its own credentials",
            "publish": _OPEN,
        },
        Status.UPGRADING,
        deadline_seconds=3600.0,
        interrupts=frozenset({ProcedureName.COPY_AGAIN}),
    ),
    Spec(
        ProcedureName.FOLLOW_LOGICAL,
        "Follow",
        {
            "initialize": "Create an empty cluster",
            "prepare": "Publish the tables in the source",
            "fetch": "Copy the schema with pg_dump",
            "boot": _BOOT,
            "secure": "Set its credentials",
            "load": "Load the schema with pg_restore",
            "subscribe": "Subscribe to the source",
            "copy": "Copy the tables",
            "analyze": "Collect statistics",
            "snapshot": "Take the first snapshot",
            "publish": _OPEN,
        },
        Status.CONFIGURING,
        creates=True,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.PROMOTE_LOGICAL,
        "Promote",
        {
            "settle": "Wait for other operations",
            "finish": "Wait for the source's last changes, and end the subscription",
            "publish": "Record that it follows nothing",
        },
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.RESTORE,
        "Restore in place",
        {
            "capture": "Copy the wanted state",
            "recover": "Recover to the restore point",
            "depart": "Begin a new timeline",
            "boot": "Start the copy",
            "secure": "Set its credentials",
            "close": "Stop the copy",
            "claim": "Wait until the service can be replaced",
            "settle": "Wait for other operations",
            "stop": "Stop the server",
            "set_aside": "Set the present data aside",
            "take_over": "Take the restored data over",
            "serve": _BOOT,
            "open": _OPEN,
            "clear": "Remove what is not needed any more",
        },
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.STOP,
        "Pause",
        {"settle": "Wait for other operations", "stop": "Stop the server"},
        Status.PAUSING,
        interrupts=frozenset({ProcedureName.RESTART, ProcedureName.COPY_AGAIN}),
    ),
    Spec(
        ProcedureName.START,
        "Resume",
        {"settle": "Wait for other operations", "boot": _BOOT, "open": _OPEN},
        Status.RESUMING,
    ),
    Spec(ProcedureName.RESTART, "Restart", {"boot": _BOOT, "open": _OPEN}, Status.UNSTABLE, is_low_priority=True),
    Spec(
        ProcedureName.RESIZE,
        "Resize",
        {
            "settle": "Wait for other operations",
            "apply": "Apply the size",
            "stop": "Stop the server",
            "boot": _BOOT,
            "open": _OPEN,
        },
        Status.UPGRADING,
    ),
    Spec(
        ProcedureName.SET_WAL_LEVEL,
        "Set wal_level",
        {"settle": "Wait for other operations", "stop": "Stop the server", "boot": _BOOT, "open": _OPEN},
        Status.UPGRADING,
    ),
    Spec(
        ProcedureName.DELETE,
        "Delete",
        {"settle": "Wait for other operations", "destroy": "Remove its data"},
        Status.DELETING,
        interrupts=_ENDED_BY_DELETE,
    ),
    Spec(
        ProcedureName.OPTIMIZE,
        "Optimize",
        {"analyze": "Collect statistics"},
        Status.OPTIMIZING,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(ProcedureName.POOLER, "Pooler", {"follow": "Start or stop the pooler"}),
    Spec(
        ProcedureName.CREATE_REPLICAS,
        "Create replicas",
        {"replicate": "Copy the service's data", **_SET_SERVES},
        Status.CONFIGURING,
        ReplicaSetStatus.CREATING,
        creates=True,
    ),
    Spec(
        ProcedureName.RESIZE_REPLICAS,
        "Resize replicas",
        {"stop": "Stop the servers", **_SET_SERVES},
        Status.UPGRADING,
        ReplicaSetStatus.RESIZING,
    ),
    Spec(
        ProcedureName.RESTART_REPLICAS,
        "Restart replicas",
        _SET_SERVES,
        Status.UNSTABLE,
        ReplicaSetStatus.ERROR,
        is_low_priority=True,
    ),
    Spec(
        ProcedureName.REBUILD_REPLICAS,
        "Rebuild replicas",
        {"discard": "Remove their data", "replicate": "Copy the service's data", **_SET_SERVES},
        Status.CONFIGURING,
        ReplicaSetStatus.CREATING,
    ),
    Spec(
        ProcedureName.DELETE_REPLICAS,
        "Delete replicas",
        {"destroy": "Remove their data"},
        Status.DELETING,
        ReplicaSetStatus.DELETING,
        interrupts=frozenset({ProcedureName.CREATE_REPLICAS}),
    ),
    Spec(ProcedureName.REPLICA_POOLER, "Pooler of replicas", {"follow": "Start or stop the pooler"}),
    Spec(
        ProcedureName.SNAPSHOT,
        "Snapshot",
        {
            "take": "Take the snapshot",
            "retire": "Remove expired snapshots from the list",
            "sweep": "Remove their files and expired WAL",
        },
        background=True,
    ),
    Spec(
        ProcedureName.DELETE_SNAPSHOT,
        "Delete a snapshot",
        {"forget": "Wait for forks of it", "sweep": "Remove its files"},
    ),
    Spec(
        ProcedureName.PREPARE,
        "Prepare the newest snapshot",
        {"rest": "Wait until the service is idle", "prepare": "Recover a copy of the snapshot"},
        background=True,
    ),
    Spec(
        ProcedureName.AFTERCARE,
        "Examine the fork",
        {"examine": "Complete the fork report", "analyze": "Collect statistics"},
        background=True,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.DRILL,
        "Verify a restore",
        {
            "choose": "Choose the restore point",
            "capture": "Copy the service's data",
            "recover": "Recover to the restore point",
            "boot": _BOOT,
            "check": "Check every table",
            "drop": "Remove the copy",
            "walk": "Verify the archived WAL",
        },
        background=True,
        deadline_seconds=_DAY_SECONDS,
        yields_to=frozenset(ProcedureName) - {ProcedureName.DRILL, ProcedureName.AFTERCARE, ProcedureName.PREPARE},
    ),
)
# A stored name may be one that a later release knows: so the keys are plain strings.
SPECS: Mapping[str, Spec] = {spec.name: spec for spec in _SPECS}
