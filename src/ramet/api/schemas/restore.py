"""The schemas of restore windows, their settings, and snapshots."""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.schemas.shared import Body, Identifier, Name, OptionalTimestamp, Timestamp
from ramet.model.snapshot import SnapshotKind

Days = Annotated[int, Meta(description="An integer, days from 1 to 365; null for the default.")]
Seconds = Annotated[int, Meta(description="An integer, seconds from 60 to 604800; null for the default.")]
Bytes = Annotated[int, Meta(description="An integer, bytes from 16777216 to 1099511627776; null for the default.")]


class SnapshotStatus(StrEnum):
    """Whether a snapshot can be used yet."""

    CREATING = "CREATING"
    AVAILABLE = "AVAILABLE"


class Snapshot(Struct, frozen=True):
    """A snapshot that a fork can be restored from. While it is being taken, time, lsn and size_bytes are null."""

    id: Identifier
    service_id: Identifier
    name: str | None
    kind: SnapshotKind
    status: SnapshotStatus
    time: OptionalTimestamp
    lsn: str | None
    size_bytes: int | None


class Gap(Struct, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """Times that the service cannot be restored to; `to` is null for a gap that has not ended."""

    begins_at: Timestamp
    ends_at: OptionalTimestamp
    reason: str


class ClockStep(Struct, frozen=True):
    """The clock of the service went back between two consecutive snapshots."""

    before: Timestamp
    after: Timestamp


class ArchiveWindow(Struct, frozen=True):
    """The times that the off-host archive has of a service."""

    earliest: Timestamp
    latest: Timestamp


class RestoreWindow(Struct, frozen=True):
    """The service can be restored to any time from earliest to latest, except those in gaps.

    What only the off-host archive has takes longer: its data is downloaded.
    Where the clock went back, a time occurred twice; it means the last occurrence.
    Before next_snapshot_at no snapshot is taken on schedule, because the last one took long or failed. Else it is
    absent.
    """

    earliest: OptionalTimestamp
    latest: OptionalTimestamp
    snapshots: list[Snapshot]
    gaps: list[Gap]
    clock_steps: list[ClockStep]
    window_days: int
    snapshot_interval_seconds: int
    snapshot_wal_bytes: int
    archive: ArchiveWindow | None
    next_snapshot_at: Timestamp | UnsetType = UNSET


class RestoreSettings(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Absent settings are kept; null restores the default of the installation."""

    window_days: Days | UnsetType | None = UNSET
    snapshot_interval_seconds: Seconds | UnsetType | None = UNSET
    snapshot_wal_bytes: Bytes | UnsetType | None = UNSET


class SnapshotCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A manual snapshot; it is kept until it is deleted."""

    name: Name | UnsetType | None = UNSET
