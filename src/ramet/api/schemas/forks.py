"""The schemas of forks: the request, the plan of a dry run, and the report."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from ramet.api.schemas.restore import Snapshot
from ramet.api.schemas.shared import Body, Cpu, Identifier, Memory, Name, Tag
from ramet.model.fork import ForkStrategy
from ramet.model.service import Environment
from ramet.model.snapshot import SnapshotKind

ParentRegion = Annotated[str, Meta(description="The parent's region code as a string; may be left out.")]


TargetTime = Annotated[
    str,
    Meta(
        description="With PITR, and only then: RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]


SnapshotWanted = Annotated[
    str, Meta(description="With LAST_SNAPSHOT: the id of the snapshot to take instead of the newest, a string.")
]


Quiet = Annotated[
    bool, Meta(description="true or false: whether jobs, credentials and the like are disabled; for DEV they are.")
]


Strategy = Annotated[ForkStrategy, Meta(description="One of LAST_SNAPSHOT, NOW, PITR.")]


class ForkServiceCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fork of a service. Type, region and storage are the parent's; name and size too unless they are given."""

    inherited: ClassVar[frozenset[str]] = frozenset(
        ("service_type", "storage", "storage_gbs", "volume_type", "disk_gbs", "addons")
    )

    fork_strategy: Strategy
    name: Name | None = None
    region_code: ParentRegion | None = None
    cpu_millis: Cpu | None = None
    memory_gbs: Memory | None = None
    target_time: TargetTime | None = None
    environment_tag: Tag | None = None
    snapshot_id: SnapshotWanted | None = None
    quiet: Quiet | None = None


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
