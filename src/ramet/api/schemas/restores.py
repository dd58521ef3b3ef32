"""The schemas of restores in place: restore, reset, checkpoint and rewind, and how a restore went."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, Identifier, Name, Timestamp
from ramet.model.fork import ForkStrategy
from ramet.model.status import OperationStatus

RestoreId = Annotated[str, Meta(pattern="^[a-z0-9]{10}$", description="Identifier of the restore, and its operation.")]
RestoreTime = Annotated[
    str,
    Meta(
        description="RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]
SnapshotWanted = Annotated[str, Meta(description="The id of a snapshot of the service or the name of a manual one.")]
OtherService = Annotated[str, Meta(description="The id of the service whose present data is taken, a string.")]
Keeps = Annotated[bool, Meta(description="true or false: whether the state before remains, as a paused service.")]
Confirmation = Annotated[str, Meta(description="The name of the service, a string; required for a PROD service.")]
ParentState = Annotated[ForkStrategy, Meta(description="One of LAST_SNAPSHOT, NOW, PITR; by default NOW.")]


class ServiceRestore(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A restore in place. Exactly one of target_time, snapshot and from_service_id is needed."""

    target_time: RestoreTime | None = None
    snapshot: SnapshotWanted | None = None
    from_service_id: OtherService | None = None
    keep_previous: Keeps | None = None
    confirm: Confirmation | None = None


class ServiceReset(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reset of a fork to a state of its parent. target_time goes with PITR."""

    fork_strategy: ParentState | None = None
    target_time: RestoreTime | None = None
    keep_previous: Keeps | None = None
    confirm: Confirmation | None = None


class CheckpointCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint: a manual snapshot to whose name the service can be rewound."""

    name: Name


class ServiceRewind(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The return of a service to the newest checkpoint with a name."""

    name: Name
    keep_previous: Keeps | None = None
    confirm: Confirmation | None = None


class Restore(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A restore in place, and how far it is. What is not known yet is absent."""

    restore_id: RestoreId
    service_id: Identifier
    verb: Annotated[str, Meta(description="restore, reset or rewind.")]
    status: OperationStatus
    started_at: Timestamp
    source_service_id: Annotated[str, Meta(description="The service whose data is restored.")]
    finished_at: Timestamp | None = None
    target_time: Timestamp | None = None
    snapshot_id: Annotated[str, Meta(description="The snapshot that the restored data comes from.")] | None = None
    step: Annotated[str, Meta(description="What it does now.")] | None = None
    progress: str = ""
    error: Annotated[str, Meta(description="Why it failed.")] | None = None
    data_replaced: Annotated[
        bool, Meta(description="Whether the service has the restored data, also if this failed.")
    ] = False
    previous_service_id: Annotated[str, Meta(description="The paused service that has the state before.")] | None = None
    stopped_seconds: Annotated[float, Meta(description="How long the service did not answer.")] | None = None


class Restores(Struct, frozen=True):
    """The restores in place of a service, newest first."""

    restores: list[Restore]
