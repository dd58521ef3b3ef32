"""The changes of a service that a browser can ask for: what each is called, does, and reads from its form.

`service_change_form.py` has the pages that are made from them.
"""

from collections.abc import Mapping
from functools import partial

from ramet.console.pages.change_form import Change, Values
from ramet.console.pages.warm_forks import WARM_FORKS
from ramet.console.views.forms import (
    InvalidField,
    environment_of,
    split_size,
    standbys_of_form,
    wal_level_of_form,
    whole_number,
)
from ramet.console.views.life_spans import labels_of, sleep_after_of, terms_of
from ramet.console.views.restore_settings import entered_settings
from ramet.control import archive, labels, life_spans, poolers, protection, replica_sets, replication, restore, services
from ramet.control.high_availability import set_ha
from ramet.control.plane import Plane
from ramet.control.sleep import set_sleep
from ramet.followers.verbs import promote_service
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.service import Service
from ramet.restores.verbs import (
    ResetRequest,
    RewindRequest,
    create_checkpoint,
    reset_service,
    rewind_service,
)


def _promote(plane: Plane, project_id: str, service_id: str, lsn: str | None, drain: bool, neutralize: bool) -> Service:
    return promote_service(plane, project_id, service_id, lsn=lsn, drain=drain, neutralize=neutralize)


def _promotion(values: Values) -> tuple[str | None, bool, bool]:
    return values.get("lsn") or None, values.get("until") == "drain", values.get("neutralize") == "yes"


def _reset(values: Values) -> tuple[ResetRequest]:
    chosen = values.get("strategy", "")
    if chosen not in tuple(ForkStrategy):
        raise InvalidField("strategy", "Choose a state of the parent")
    target = values.get("target_time") or None
    if chosen == ForkStrategy.PITR and target is None:
        raise InvalidField("target_time", "Enter a time")
    strategy = ForkStrategy(chosen)
    return (
        ResetRequest(
            strategy,
            target_time=target if strategy is ForkStrategy.PITR else None,
            keeps=values.get("keep") == "yes",
            confirm=values.get("confirmation"),
        ),
    )


def _rewind(values: Values) -> tuple[RewindRequest]:
    if not values.get("checkpoint"):
        raise InvalidField("checkpoint", "Choose a checkpoint")
    return (RewindRequest(values["checkpoint"], values.get("keep") == "yes", values.get("confirmation")),)


def _replicas(values: Values) -> tuple[replica_sets.ReplicaSetRequest]:
    nodes = whole_number(values, "nodes", 3)
    cpu, memory = split_size(values.get("size", ""))
    return (replica_sets.ReplicaSetRequest(values.get("name", ""), nodes, cpu or "", memory or ""),)


CHANGES: Mapping[str, Change[Service]] = {
    "pause": Change(
        "stopService",
        "Pause",
        "Pause",
        "The server shuts down and its clients are disconnected. The data is kept.",
        services.stop_service,
        disruptive=True,
    ),
    "resume": Change(
        "startService",
        "Resume",
        "Resume",
        "The server starts again at the same endpoint.",
        services.start_service,
    ),
    "rename": Change(
        "renameService",
        "Rename",
        "Rename",
        "Only the name changes. The id and the endpoint stay the same.",
        services.rename_service,
        lambda values: (values.get("name", ""),),
        fields=("name",),
    ),
    "resize": Change(
        "resizeService",
        "Resize",
        "Resize",
        "Changes CPU and memory. The server restarts once if PostgreSQL cannot apply the new settings while it runs."
        " A paused service is resumed.",
        services.resize_service,
        lambda values: split_size(values.get("size", "")),
        disruptive=True,
        fields=("size",),
    ),
    "environment": Change(
        "setEnvironment",
        "Set the environment of",
        "Set environment",
        "You must type the name of a PROD service before a change that interrupts its clients or loses data.",
        services.set_environment,
        lambda values: (environment_of(values),),
        disruptive=True,
        fields=("environment",),
    ),
    "wal-level": Change(
        "setWalLevel",
        "Set wal_level of",
        "Set wal_level",
        "With logical, tsdbadmin can publish tables, and other servers can subscribe to them. The server restarts once,"
        " and its read replicas; a paused service is resumed.",
        replication.set_wal_level,
        lambda values: (wal_level_of_form(values),),
        disruptive=True,
        fields=("wal_level",),
    ),
    "high-availability": Change(
        "setHAReplica",
        "Set the high availability of",
        "Set replicas",
        "Replicas take over when the primary fails. Each commit waits until the synchronous ones have written it: then"
        " nothing that was confirmed is lost. The service serves all the time; a paused one has them when it resumes.",
        set_ha,
        standbys_of_form,
        fields=("standbys",),
    ),
    "password": Change(
        "updatePassword",
        "Reset the password of",
        "Reset password",
        "New connections as tsdbadmin need the new password. Open sessions are not interrupted.",
        services.update_password,
        lambda values: (Secret(values.get("password", "")),),
        disruptive=True,
        fields=("password",),
        done="The password of tsdbadmin has been changed.",
    ),
    "snapshot": Change(
        "createSnapshot",
        "Take a snapshot of",
        "Take snapshot",
        "You can fork the service from this snapshot later. It is kept until you delete it; a name helps you find it.",
        restore.take_snapshot,
        lambda values: (values.get("name") or None,),
        fields=("snapshot_name",),
    ),
    "reset": Change(
        "resetService",
        "Reset",
        "Reset",
        "The fork becomes a fresh copy of its parent, with the same id, endpoint and passwords. What was changed in it"
        " is lost, except in its restore window. Forks of it are not affected.",
        reset_service,
        _reset,
        disruptive=True,
        fields=("reset", "keep"),
        done="The reset has begun. The service answers until the new data is ready.",
    ),
    "checkpoint": Change(
        "createCheckpoint",
        "Make a checkpoint of",
        "Make checkpoint",
        "A snapshot to which the service can be rewound by this name, as often as you like. It is kept until you delete"
        " it.",
        create_checkpoint,
        lambda values: (values.get("name", ""),),
        fields=("snapshot_name",),
        done="The checkpoint is being made.",
    ),
    "rewind": Change(
        "rewindService",
        "Rewind",
        "Rewind",
        "The service gets the data of the checkpoint, with the same id, endpoint and passwords. What was changed since"
        " then is lost, except in its restore window.",
        rewind_service,
        _rewind,
        disruptive=True,
        fields=("checkpoint", "keep"),
        done="The rewind has begun. The service answers until the data is ready.",
    ),
    "promote": Change(
        "promoteService",
        "Promote",
        "Promote",
        "The service stops following its source, and can be written to. That cannot be undone.",
        _promote,
        _promotion,
        disruptive=True,
        fields=("promotion",),
    ),
    "pool": Change(
        "enablePooler",
        "Add a pooler to",
        "Add pooler",
        "A connection pooler with its own endpoint lets many clients share a few server connections.",
        poolers.enable_pooler,
    ),
    "unpool": Change(
        "disablePooler",
        "Remove the pooler of",
        "Remove pooler",
        "Clients of the pooler's endpoint are disconnected. The service keeps running.",
        poolers.disable_pooler,
        disruptive=True,
    ),
    "archive": Change(
        "updateArchive",
        "Archive",
        "Archive off the host",
        "Base backups and WAL are sent to the off-host archive, from which the service can be recovered if this host is"
        " lost.",
        partial(archive.set_archive, enabled=True),
    ),
    "unarchive": Change(
        "updateArchive",
        "Stop archiving",
        "Stop archiving",
        "What is committed from now on is lost if this host is lost. What the off-host archive has is kept until it"
        " expires.",
        partial(archive.set_archive, enabled=False),
        disruptive=True,
    ),
    "optimize": Change(
        "optimizeService",
        "Optimize",
        "Optimize",
        "Runs ANALYZE on all tables of all databases, which updates the planner's statistics. The service stays up.",
        services.optimize_service,
    ),
    "window": Change(
        "updateRestoreSettings",
        "Set the restore window of",
        "Save",
        "How far back you can restore the service, and when snapshots are taken. A shorter window permanently deletes"
        " older snapshots. More frequent snapshots make point-in-time forks READY sooner.",
        restore.change_restore_settings,
        entered_settings,
        disruptive=True,
        fields=("window",),
        done="The settings of the restore window have been saved.",
    ),
    "extend": Change(
        "extendService",
        "Extend",
        "Save",
        "The service is deleted when its life span is over, counted from now. That is announced before, and you can"
        " extend it again. Leave both fields empty to keep it for good.",
        life_spans.extend_service,
        lambda values: (terms_of(values),),
        fields=("life_span",),
        done="The life span has been saved.",
    ),
    "sleep": Change(
        "setSleep",
        "Change the sleep of",
        "Save",
        "A service without clients for so long is stopped, and the next client wakes it and waits for that. Leave the"
        " field empty to keep it awake. The first time, and when the field is emptied, the server restarts.",
        set_sleep,
        lambda values: (sleep_after_of(values),),
        disruptive=True,
        fields=("sleep_after",),
        done="When the service sleeps has been saved.",
    ),
    "warm-forks": WARM_FORKS,
    "protect": Change(
        "setProtection",
        "Protect",
        "Protect",
        "The service cannot be deleted, reset or restored, by anybody, and does not expire, until you remove the"
        " protection.",
        partial(protection.set_protection, protected=True),
    ),
    "unprotect": Change(
        "setProtection",
        "Remove the protection of",
        "Remove protection",
        "The service can be deleted, reset and restored again, and expires if it has a life span.",
        partial(protection.set_protection, protected=False),
        disruptive=True,
    ),
    "labels": Change(
        "updateLabels",
        "Label",
        "Save labels",
        "Labels help to find services: search for key=value, here or with ramet service list --label.",
        labels.set_labels,
        lambda values: (labels_of(values),),
        fields=("labels",),
    ),
    "add-replicas": Change(
        "createReplicaSet",
        "Add read replicas to",
        "Add read replicas",
        "Creates a set of read-only standby servers behind one endpoint. They accept the service's password.",
        replica_sets.create_set,
        _replicas,
        fields=("name", "nodes", "size"),
    ),
    "delete": Change(
        "deleteService",
        "Delete",
        "Delete permanently",
        "Deletes the service's data, snapshots, local WAL archive and read replicas. Forks of it are kept."
        " This cannot be undone. What the off-host archive has of it stays there until it expires.",
        services.delete_service,
        disruptive=True,
        final=True,
    ),
}
