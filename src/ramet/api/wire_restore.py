"""The shapes of a service's past: restore window, snapshots, fork reports and plans."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.wire import Body, Identifier, Moment, Name
from ramet.model.fork import ForkStrategy
from ramet.model.service import Environment
from ramet.model.snapshot import SnapshotKind

MaybeMoment = Annotated[datetime | None, Meta(description="RFC 3339, in UTC; null when there is none.")]
Days = Annotated[int, Meta(description="An integer, days from 1 to 365; null for the default.")]
Seconds = Annotated[int, Meta(description="An integer, seconds from 60 to 604800; null for the default.")]
Bytes = Annotated[int, Meta(description="An integer, bytes from 16777216 to 1099511627776; null for the default.")]


class SnapshotStatus(StrEnum):
    """How far a snapshot is."""

    CREATING = "CREATING"
    AVAILABLE = "AVAILABLE"


class Snapshot(Struct, frozen=True):
    """An image of a service that a fork can grow from. While it is being made, time, lsn and size are null."""

    id: Identifier
    service_id: Identifier
    name: str | None
    kind: SnapshotKind
    status: SnapshotStatus
    time: MaybeMoment
    lsn: str | None
    size_bytes: int | None


class Gap(Struct, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """Moments that cannot be had, between two that can; `to` is null for a gap that reaches until now."""

    begins_at: Moment
    ends_at: MaybeMoment
    reason: str


class ClockStep(Struct, frozen=True):
    """The clock of the service went back, as two snapshots show that follow each other."""

    before: Moment
    after: Moment


class RestoreWindow(Struct, frozen=True):
    """Forks can be made of the moments from earliest to latest, but for the gaps.

    Where the clock went back a moment occurs twice; it means its last occurrence.
    """

    earliest: MaybeMoment
    latest: MaybeMoment
    snapshots: list[Snapshot]
    gaps: list[Gap]
    clock_steps: list[ClockStep]
    window_days: int
    snapshot_interval_seconds: int
    snapshot_wal_bytes: int


class RestoreSettings(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is; null takes the default of the installation."""

    window_days: Days | UnsetType | None = UNSET
    snapshot_interval_seconds: Seconds | UnsetType | None = UNSET
    snapshot_wal_bytes: Bytes | UnsetType | None = UNSET


class SnapshotCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A snapshot made by hand; it stays until it is deleted."""

    name: Name | UnsetType | None = UNSET


class TransactionMark(Struct, frozen=True):
    """The end of one transaction, in the WAL and in time."""

    xid: int
    lsn: str
    time: str


class WalRange(Struct, frozen=True):
    """The WAL that a fork grew from. Every transaction whose end lies before stop_lsn is in the fork, no other is."""

    first_segment: str | None
    last_segment: str | None
    start_lsn: str
    stop_lsn: str
    replayed_bytes: int


class BaseSnapshot(Struct, frozen=True):
    """The image that a fork grew from; without an id it was made for this fork alone."""

    id: str | None
    time: str
    kind: SnapshotKind | None


class StepSeconds(Struct, frozen=True):
    """One step of the work."""

    step: str
    seconds: float


class NotCarriedOver(Struct, frozen=True):
    """Something of the parent that PostgreSQL cannot bring along, and what was done about it."""

    what: str
    names: list[str]
    remedy: str


class ForkReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What exactly a fork holds, how it was made, and what was checked."""

    service_id: Identifier
    parent_service_id: str
    parent_name: str
    strategy: str
    requested_target: Annotated[str | None, Meta(description="As the caller wrote it.")]
    base: BaseSnapshot
    wal: WalRange
    timeline: int
    last_included: TransactionMark | None = None
    first_excluded: Annotated[
        TransactionMark | None, Meta(description="Absent while nothing committed on the parent after the border.")
    ] = None
    excluded_with_earlier_time: Annotated[
        list[int],
        Meta(description="Transactions behind the border whose time is not after the target: clocks and WAL disagree."),
    ]
    size_bytes: int
    total_seconds: float | None
    steps: list[StepSeconds]
    phases: Annotated[dict[str, float], Meta(description="Seconds of the parts of the first step.")]
    neutralised: Annotated[dict[str, Any], Meta(description="What was kept from acting on the outside world.")]
    not_carried_over: list[NotCarriedOver]
    checks: Annotated[list[str], Meta(description="What was proven before the fork was READY.")]


class ForkPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a fork would be: the answer to a dry run. Nothing was made, and no name, port or moment is reserved."""

    parent_service_id: Identifier
    name: str
    strategy: ForkStrategy
    target_time: Annotated[datetime | None, Meta(description="The moment that the fork would hold; null without PITR.")]
    base_snapshot: Annotated[
        Snapshot | None, Meta(description="The parent's snapshot that it would grow from; absent for a copy of now.")
    ] = None
    environment: Environment
    cpu_millis: int | None
    memory_gbs: int | None
    wal_bytes: Annotated[int | None, Meta(description="About how much WAL would be replayed; null for none.")]
    estimated_seconds: Annotated[
        float,
        Meta(description="The median of the last forks here, and the redo of the WAL at 120 MB a second on top."),
    ]
