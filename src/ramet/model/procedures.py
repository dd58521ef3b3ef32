"""The changes that a service goes through, as data: one table that every layer reads.

What the steps do is in `ramet.procedures`, a file for each procedure. The names of procedures and steps are stored:
renaming one is a migration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from ramet.model.status import ReplicaSetStatus, Status
from ramet.model.steps import steps

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
    MOVE = "move"
    STOP = "stop"
    START = "start"
    RESTART = "restart"
    SLEEP = "sleep"
    SET_SLEEP = "set_sleep"
    RESIZE = "resize"
    SET_WAL_LEVEL = "set_wal_level"
    SET_HA = "set_ha"
    SET_PARAMETERS = "set_parameters"
    SET_ADDRESS = "set_address"
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
    EXPIRE = "expire"
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


_ENDED_BY_DELETE = frozenset({
    ProcedureName.CREATE, ProcedureName.FORK, ProcedureName.IMPORT, ProcedureName.FOLLOW,
    ProcedureName.COPY_AGAIN, ProcedureName.REPLACE_COPY, ProcedureName.PROMOTE, ProcedureName.FOLLOW_LOGICAL,
    ProcedureName.PROMOTE_LOGICAL, ProcedureName.RECOVER, ProcedureName.RESTART, ProcedureName.TRY_UPGRADE,
    ProcedureName.UPGRADE, ProcedureName.OPTIMIZE,
})  # fmt: skip


_RETIRE, _SWEEP = "Remove expired snapshots from the list", "Remove their files and expired WAL"
# What makes a service.
_creation = partial(Spec, status=Status.CONFIGURING, creates=True)
_SPECS = (
    _creation(ProcedureName.CREATE, "Create", steps("initialize boot secure snapshot publish")),
    _creation(
        ProcedureName.FORK,
        "Fork",
        steps(
            "capture recover boot secure publish", capture="Copy the parent's data", secure="Set its own credentials"
        ),
    ),
    _creation(
        ProcedureName.RECOVER,
        "Recover from the archive",
        steps(
            "choose fetch capture recover boot stop start open",
            choose="Choose the base backup",
            fetch="Download from the archive",
            capture="Create the volume",
            boot="Start the server for the first time",
            stop="Stop it",
            start="Start the server",
        ),
        deadline_seconds=_DAY_SECONDS,
    ),
    _creation(
        ProcedureName.IMPORT,
        "Import",
        steps(
            "initialize fetch boot secure load analyze snapshot publish",
            fetch="Copy the source with pg_dump",
            load="Load the copy with pg_restore",
        ),
        deadline_seconds=_DAY_SECONDS,
    ),
    _creation(
        ProcedureName.TRY_UPGRADE,
        "Try an upgrade",
        steps(
            "capture recover boot survey prepare stop upgrade start complete analyze compare secure end",
            recover="Recover it",
            boot="Start the present version",
            survey="Count rows and plan statements",
            prepare="Prepare the data",
            stop="Stop the present version",
            compare="Compare rows and plans",
            secure="Set its own credentials",
            end="Remove the fork, or keep it",
        ),
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.UPGRADE,
        "Upgrade",
        steps(
            "settle stop copy boot prepare halt upgrade start complete analyze close set_aside take_over serve open",
            copy="Copy its data",
            boot="Start the copy",
            prepare="Prepare the copy",
            halt="Stop the copy",
            close="Stop the new version",
            set_aside="Set the data of before aside",
            take_over="Take the new data over",
        ),
        Status.UPGRADING,
        deadline_seconds=_DAY_SECONDS,
    ),
    _creation(
        ProcedureName.FOLLOW,
        "Follow",
        steps("prepare fetch boot snapshot publish", prepare="Create the volume", boot="Start the standby"),
        deadline_seconds=3600.0,
    ),
    Spec(ProcedureName.COPY_AGAIN, "Copy the source again", steps("fetch"), Status.READY, deadline_seconds=3600.0),
    Spec(
        ProcedureName.REPLACE_COPY,
        "Follow with the new copy",
        steps(
            "settle keep replace boot snapshot open",
            keep="Take a snapshot of the old state",
            replace="Put the new copy in place",
            boot="Start the standby",
        ),
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.PROMOTE,
        "Promote",
        steps(
            "settle wait promote secure publish",
            wait="Wait for the source's last changes",
            promote="End recovery",
            secure="Set its own credentials",
        ),
        Status.UPGRADING,
        deadline_seconds=3600.0,
        interrupts=frozenset({ProcedureName.COPY_AGAIN}),
    ),
    _creation(
        ProcedureName.FOLLOW_LOGICAL,
        "Follow",
        steps(
            "initialize prepare fetch boot secure load subscribe copy analyze snapshot publish",
            prepare="Publish the tables in the source",
            fetch="Copy the schema with pg_dump",
            load="Load the schema with pg_restore",
            subscribe="Subscribe to the source",
            copy="Copy the tables",
        ),
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.PROMOTE_LOGICAL,
        "Promote",
        steps(
            "settle finish publish",
            finish="Wait for the source's last changes, and end the subscription",
            publish="Record that it follows nothing",
        ),
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.RESTORE,
        "Restore in place",
        steps(
            "capture recover depart boot secure close claim settle stop set_aside take_over serve open clear",
            capture="Copy the wanted state",
            depart="Begin a new timeline",
            boot="Start the copy",
            close="Stop the copy",
            claim="Wait until the service can be replaced",
            set_aside="Set the present data aside",
            take_over="Take the restored data over",
            clear="Remove what is not needed any more",
        ),
        Status.UPGRADING,
        deadline_seconds=3600.0,
    ),
    Spec(
        ProcedureName.MOVE,
        "Move to another Ramet",
        steps(
            "check admit follow catch_up claim settle stop drain promote equip end",
            check="Ask the other Ramet",
            admit="Let the other Ramet copy the service",
            follow="Request a copy there",
            catch_up="Copy the service there",
            claim="Wait until the service can be stopped",
            drain="Wait until the copy has the last changes",
            promote="Open the service there",
            equip="Carry its settings over",
            end="Keep the service here, paused",
        ),
        Status.PAUSING,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.STOP,
        "Pause",
        steps("settle stop"),
        Status.PAUSING,
        interrupts=frozenset({ProcedureName.COPY_AGAIN, ProcedureName.RESTART}),
    ),
    Spec(ProcedureName.START, "Resume", steps("settle boot open"), Status.RESUMING),
    Spec(ProcedureName.RESTART, "Restart", steps("boot open"), Status.UNSTABLE, is_low_priority=True),
    Spec(
        ProcedureName.SLEEP,
        "Fall asleep",
        steps("settle stop", stop="Stop the server unless it is in use"),
        Status.PAUSING,
        is_low_priority=True,
    ),
    Spec(ProcedureName.SET_SLEEP, "Change when it sleeps", steps("settle stop boot open"), Status.UPGRADING),
    Spec(
        ProcedureName.RESIZE, "Resize", steps("settle apply stop boot open", apply="Apply the size"), Status.UPGRADING
    ),
    Spec(ProcedureName.SET_WAL_LEVEL, "Set wal_level", steps("settle stop boot open"), Status.UPGRADING),
    Spec(
        ProcedureName.SET_HA,
        "Set high availability",
        steps("settle follow", follow="Make or remove standbys"),
        Status.UPGRADING,
    ),
    Spec(
        ProcedureName.SET_PARAMETERS,
        "Change settings",
        steps("settle apply stop boot open", apply="Apply the settings"),
        Status.UPGRADING,
    ),
    Spec(
        ProcedureName.SET_ADDRESS,
        "Set the address",
        steps("settle apply stop boot open", apply="Issue a certificate for the address"),
        Status.UPGRADING,
    ),
    Spec(
        ProcedureName.DELETE,
        "Delete",
        steps("settle destroy", destroy="Remove its data"),
        Status.DELETING,
        interrupts=_ENDED_BY_DELETE,
    ),
    Spec(ProcedureName.OPTIMIZE, "Optimize", steps("analyze"), Status.OPTIMIZING, deadline_seconds=_DAY_SECONDS),
    Spec(ProcedureName.POOLER, "Pooler", steps("follow")),
    Spec(
        ProcedureName.CREATE_REPLICAS,
        "Create replicas",
        steps("replicate boot publish", boot="Start the servers"),
        Status.CONFIGURING,
        ReplicaSetStatus.CREATING,
        creates=True,
    ),
    Spec(
        ProcedureName.RESIZE_REPLICAS,
        "Resize replicas",
        steps("stop boot publish", stop="Stop the servers", boot="Start the servers"),
        Status.UPGRADING,
        ReplicaSetStatus.RESIZING,
    ),
    Spec(
        ProcedureName.RESTART_REPLICAS,
        "Restart replicas",
        steps("boot publish", boot="Start the servers"),
        Status.UNSTABLE,
        ReplicaSetStatus.ERROR,
        is_low_priority=True,
    ),
    Spec(
        ProcedureName.REBUILD_REPLICAS,
        "Rebuild replicas",
        steps("discard replicate boot publish", discard="Remove their data", boot="Start the servers"),
        Status.CONFIGURING,
        ReplicaSetStatus.CREATING,
    ),
    Spec(
        ProcedureName.DELETE_REPLICAS,
        "Delete replicas",
        steps("destroy", destroy="Remove their data"),
        Status.DELETING,
        ReplicaSetStatus.DELETING,
        interrupts=frozenset({ProcedureName.CREATE_REPLICAS, ProcedureName.REBUILD_REPLICAS}),
    ),
    Spec(ProcedureName.REPLICA_POOLER, "Pooler of replicas", steps("follow")),
    Spec(
        ProcedureName.SNAPSHOT,
        "Snapshot",
        steps("take retire sweep", take="Take the snapshot", retire=_RETIRE, sweep=_SWEEP),
        background=True,
    ),
    Spec(
        ProcedureName.EXPIRE,
        "Remove expired snapshots",
        steps("retire sweep", retire=_RETIRE, sweep=_SWEEP),
        background=True,
    ),
    Spec(
        ProcedureName.DELETE_SNAPSHOT,
        "Delete a snapshot",
        steps("forget sweep", forget="Wait for forks of it", sweep="Remove its files"),
    ),
    Spec(
        ProcedureName.PREPARE,
        "Prepare the newest snapshot",
        steps("rest prepare", rest="Wait until the service is idle", prepare="Recover a copy of the snapshot"),
        background=True,
    ),
    Spec(
        ProcedureName.AFTERCARE,
        "Examine the fork",
        steps("examine analyze", examine="Complete the fork report"),
        background=True,
        deadline_seconds=_DAY_SECONDS,
    ),
    Spec(
        ProcedureName.DRILL,
        "Verify a restore",
        steps(
            "choose capture recover boot check drop walk",
            choose="Choose the restore point",
            check="Check every table",
            drop="Remove the copy",
            walk="Verify the archived WAL",
        ),
        background=True,
        deadline_seconds=_DAY_SECONDS,
        yields_to=frozenset(ProcedureName) - {ProcedureName.DRILL, ProcedureName.AFTERCARE, ProcedureName.PREPARE},
    ),
)
# A stored name may be one that a later release knows: so the keys are plain strings.
SPECS: Mapping[str, Spec] = {spec.name: spec for spec in _SPECS}
# Steps that take a thread until all data of a service is copied, where volumes share no blocks. They may have to wait
# for a thread; `upgrade.copy` does not, because its service is down until it is complete.
COPYING_STEPS = frozenset({
    "fork.capture", "try_upgrade.capture", "restore.capture", "restore.close", "create_replicas.replicate",
    "rebuild_replicas.replicate", "snapshot.take", "drill.capture"
})  # fmt: skip
# Steps that send to the off-host archive, and take a thread for up to a minute while that does not answer.
SENDING_STEPS = frozenset({"delete.destroy"})
