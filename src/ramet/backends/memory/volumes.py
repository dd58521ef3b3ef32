"""What the services of the memory backend are: lists of committed rows."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ramet.backends.interface.values import ExtensionUpdate, Sessions
from ramet.errors import Failed, Unavailable
from ramet.model.gaps import Gap
from ramet.model.high_availability import NO_STANDBYS, Standbys
from ramet.model.logs import LogEntry
from ramet.model.passwords import Secret

ROW_BYTES = 100
KEPT_ENTRIES = 2000


@dataclass(frozen=True)
class Row:
    """One committed transaction."""

    committed_at: datetime
    value: str


@dataclass
class Volume:
    """What a service has on this imaginary host.

    `past` are the rows that it had until a time at which they were replaced. Without `has_data` only its snapshots and
    its past are here. `copied_by` is the verifier of the role that a copy may stream as.
    """

    rows: list[Row] = field(default_factory=list)
    snapshots: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    backups: int = 0
    running: bool = False
    is_open: bool = False
    secured: bool = False
    refreshes: int = 0
    unfinished_refreshes: int = 0
    starts_in: int = 0
    verifier: Secret | None = None
    memory_gbs: int | None = None
    log: list[LogEntry] = field(default_factory=list)
    sessions: Sessions = field(default_factory=lambda: Sessions(0, ""))
    measured: dict[str, float] = field(default_factory=dict)
    pooler_port: int | None = None
    has_database: bool = True
    balancer_port: int | None = None
    follows: bool = True
    gaps: list[Gap] = field(default_factory=list)
    damage: str = ""
    archive_delay: str | None = None
    held: bool = False
    slots: set[str] = field(default_factory=set)
    unlogged: list[str] = field(default_factory=list)
    copied_by: Secret | None = None
    replicates: bool = False
    logins: dict[str, bool] = field(default_factory=dict)
    pg_major: int | None = None
    is_prepared: bool = False
    has_data: bool = True
    timeline: int = 1
    last_timeline: int = 1
    past: list[tuple[datetime, tuple[Row, ...]]] = field(default_factory=list)
    noted: Secret | None = None
    standbys: Standbys = NO_STANDBYS
    parameters: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    host: str = "localhost"
    earlier_hosts: tuple[str, ...] = ()


class Memory:
    """All volumes, and what tests set. `starts_after` is how many times a starting server is found not ready yet.

    With `recoveries_need_parent` what is captured of a service is complete only after its recovery.
    """

    def __init__(self, starts_after: int = 0, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.volumes: dict[str, Volume] = {}
        self.fetched: dict[str, tuple[Row, ...]] = {}
        self.short_of_room: str | None = None
        self.startable: int | None = None
        self.committed_mbs: int | None = None
        self.short_of_quota: dict[str, str] = {}
        self.jobs: list[str] = []
        self.asleep: dict[str, bool] = {}  # those of services that may sleep, and whether these do
        self.waiting: set[str] = set()
        self.has_standbys = False
        self.takes_snapshots = True
        self.recoveries_need_parent = False
        self.refused: list[tuple[str, str]] = []
        self.unacceptable = ""
        self.outdated: list[ExtensionUpdate] = []
        self.starts_after = starts_after
        self.clock = clock
        self.lock = threading.RLock()

    def volume(self, service_id: str) -> Volume:
        volume = self.volumes.get(service_id)
        if volume is None or not volume.has_data:
            raise Failed("VOLUME_LOST", f"The volume of service {service_id} is lost")
        return volume

    def running(self, service_id: str) -> Volume:
        volume = self.volume(service_id)
        if not volume.running:
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {service_id} is not running")
        return volume

    def serving(self, service_id: str) -> Volume:
        volume = self.volume(service_id)
        if not (volume.running and volume.is_open):
            raise Failed("NOT_SERVING", f"Service {service_id} does not accept connections")
        return volume


class MemoryPart:
    """A part of the backend in memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
