"""The schemas of forks: the request, the plan of a dry run, and the report."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from ramet.api.schemas.life_spans import Count, KeptBody
from ramet.api.schemas.restore import Snapshot
from ramet.api.schemas.shared import Cpu, Identifier, Memory, Name, Tag, Timestamp, WalLevelWanted
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.snapshot import SnapshotKind
from ramet.model.warm_forks import LEAST_AGE_SECONDS, MOST_AGE_SECONDS

ParentRegion = Annotated[str, Meta(description="The parent's region code as a string; optional.")]
TargetTime = Annotated[
    str,
    Meta(
        description="With PITR, and only then: RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]
SnapshotWanted = Annotated[
    str,
    Meta(
        description="With LAST_SNAPSHOT: the id or the name of the snapshot to restore instead of the newest, a string."
        " Of several with that name it is the newest."
    ),
]
Quiet = Annotated[
    bool,
    Meta(description="true or false: whether to disable jobs, foreign credentials and the like; by default for DEV."),
]
FromDeleted = Annotated[
    bool,
    Meta(description="true to fork a deleted service out of the off-host archive; NOW means its last state there."),
]
MaxAge = Annotated[
    int,
    Meta(
        description="With NOW: the state of the fork may be so many seconds old, an integer from"
        f" {LEAST_AGE_SECONDS} to {MOST_AGE_SECONDS}. Then a warm fork of that age is given, if there is one."
    ),
]
Strategy = Annotated[ForkStrategy, Meta(description="One of LAST_SNAPSHOT, NOW, PITR.")]


class ForkServiceCreate(KeptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fork of a service. Type, region and storage are the parent's; name and size too, unless given."""

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
    from_deleted: FromDeleted | None = None
    wal_level: WalLevelWanted | None = None
    max_age_seconds: MaxAge | None = None


class ForkServicesCreate(ForkServiceCreate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several forks of a service. Each has its number as a suffix of the name."""

    count: Count


class TransactionMark(Struct, frozen=True):
    """The commit of a transaction: its WAL location and its time."""

    xid: int
    lsn: str
    time: str


class WalRange(Struct, frozen=True):
    """The WAL that a fork replayed. The fork contains exactly the transactions that ended before stop_lsn."""

    first_segment: str | None
    last_segment: str | None
    start_lsn: str
    stop_lsn: str
    replayed_bytes: int


class BaseSnapshot(Struct, frozen=True):
    """The base backup of a fork; it has no id if it was taken for this fork alone."""

    id: str | None
    time: str
    kind: SnapshotKind | None


class StepSeconds(Struct, frozen=True):
    """The duration of one step."""

    step: str
    seconds: float


class NotCarriedOver(Struct, frozen=True):
    """Something of the parent that PostgreSQL does not copy, and what to do about it."""

    what: str
    names: list[str]
    remedy: str


class ArchiveDownload(Struct, frozen=True, omit_defaults=True):
    """What was downloaded from the off-host archive for a fork."""

    url: str
    base_backup: str
    downloaded_bytes: int
    seconds: float
    unread: Annotated[
        str | None,
        Meta(description="Why WAL soon after the target was not read. Absent if it was: no clock step is missed."),
    ] = None


class PlannedDownload(Struct, frozen=True):
    """What would be downloaded from the off-host archive: about how much, and at which rate, measured or assumed."""

    base_backup: str
    base_time: Timestamp
    download_bytes: int
    bytes_per_second: int


class ForkReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a fork contains, how it was created, and what was checked."""

    service_id: Identifier
    parent_service_id: str
    parent_name: str
    strategy: str
    requested_target: Annotated[str | None, Meta(description="As written in the request.")]
    base: BaseSnapshot
    archive: Annotated[ArchiveDownload | None, Meta(description="Absent if the data of the fork was on this host.")] = (
        None
    )
    wal: WalRange
    timeline: int
    last_included: TransactionMark | None = None
    first_excluded: Annotated[
        TransactionMark | None, Meta(description="Absent if nothing was committed on the parent after stop_lsn.")
    ] = None
    excluded_with_earlier_time: Annotated[
        list[int],
        Meta(description="Transactions after stop_lsn with a commit time up to the target: the clock went back."),
    ]
    size_bytes: int
    total_seconds: Annotated[
        float | None,
        Meta(description="From the request to READY: 0 for a warm fork, whose steps had ended before the request."),
    ]
    steps: list[StepSeconds]
    phases: Annotated[dict[str, float], Meta(description="Seconds of each part of the first step.")]
    neutralised: Annotated[
        dict[str, Any], Meta(description="What was disabled so that the fork does not act on other systems.")
    ]
    not_carried_over: list[NotCarriedOver]
    checks: Annotated[list[str], Meta(description="What was verified before the fork became READY.")]


class ForkPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The response to a dry run: the fork that would be created. Nothing is created or reserved."""

    parent_service_id: Identifier
    name: str
    strategy: ForkStrategy
    target_time: Annotated[datetime | None, Meta(description="The recovery target; null without PITR.")]
    base_snapshot: Annotated[
        Snapshot | None,
        Meta(description="The parent's snapshot that would be restored; absent if the fork copies the present state."),
    ] = None
    archive: Annotated[
        PlannedDownload | None, Meta(description="Absent if the data of the fork would not come from the archive.")
    ] = None
    copied_bytes: Annotated[
        int | None,
        Meta(
            description="What would be copied from the parent's server over the network, and stored once more; absent"
            " where the storage shares data."
        ),
    ] = None
    environment: Environment
    cpu_millis: int | None
    memory_gbs: int | None
    wal_bytes: Annotated[int | None, Meta(description="About how much WAL would be replayed; null if none.")]
    estimated_seconds: Annotated[
        float,
        Meta(
            description="The median of the latest forks on this host, plus WAL replay at 120 MB a second,"
            " plus the download. A copy of all data takes as long as 50 MB a second at least."
        ),
    ]
