"""The values that backends take and return."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ramet.model.environment import Environment
from ramet.model.high_availability import NO_STANDBYS, Standbys
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.snapshot import PlacedInWal
from ramet.model.upstream import Upstream
from ramet.model.wal_level import WalLevel


@dataclass(frozen=True)
class Primary:
    """The service that a replica follows: its id, and the port of its endpoint.

    `set_id` and `set_port` are the read replica set that the replica belongs to, and the port of its endpoint.
    """

    service_id: str
    port: int
    set_id: str = ""
    set_port: int = 0


@dataclass(frozen=True)
class Server:
    """What a backend must know of a service to run its server. Port 0: a server that no client can reach.

    With a `server_port`, which the server listens on, the endpoint outlives it: see ramet.backends.interface.endpoints.
    `upstream` is the database elsewhere that it is a physical standby of. `archived_as` is its name in the off-host
    archive, where that is not its id. `standbys` take over when it fails. `parameters` are the settings of
    PostgreSQL that it has of its own, in order of name. Its certificate is also for `earlier_hosts`. `is_dev_fork`: it,
    or the service that it is a replica of, was forked, and its environment is DEV.
    """

    service_id: str
    service_type: ServiceType
    environment: Environment
    size: Size
    host: str
    port: int
    pg_major: int
    verifier: Secret
    pooler_port: int | None = None
    primary: Primary | None = None
    wal_level: WalLevel = WalLevel.REPLICA
    upstream: Upstream | None = None
    archived_as: str | None = None
    server_port: int | None = None
    project_id: str = ""
    standbys: Standbys = NO_STANDBYS
    parameters: tuple[tuple[str, str], ...] = ()
    earlier_hosts: tuple[str, ...] = ()
    is_dev_fork: bool = False

    @property
    def listen_port(self) -> int:
        """The port that the server itself listens on, which also names its private socket."""
        return self.port and (self.server_port or self.port)

    @property
    def archive_name(self) -> str:
        """The name under which the off-host archive has it."""
        return self.archived_as or self.service_id

    @property
    def is_standby(self) -> bool:
        """Tell whether nothing can be written in it: it follows a service, or a database elsewhere."""
        return self.primary is not None or self.upstream is not None

    @property
    def required_upstream(self) -> Upstream:
        """The database elsewhere that it follows, where it is known to follow one."""
        if self.upstream is None:
            raise AssertionError("BUG: a standby without a source")
        return self.upstream


@dataclass(frozen=True)
class SnapshotFacts(PlacedInWal):
    """What is recorded of a snapshot; see ramet.model.snapshot.Snapshot."""

    taken_at: datetime
    start_lsn: str
    end_lsn: str
    timeline: int
    next_xid: int
    size_bytes: int


@dataclass(frozen=True)
class Source:
    """Where a fork's data comes from.

    Neither `snapshot_id` nor `target`: the current state of the parent. `snapshot_id` alone: that snapshot.
    Both: that snapshot, rolled forward to the last commit at or before `target`.
    `paused` says that the parent's server is cleanly stopped and stays stopped.
    With `base_backup_id` all of it comes from the off-host archive, and nothing of the parent is needed: that base
    backup, rolled forward to the last commit at or before `target`; without one to the last commit that the archive
    has. The archive is known to have everything that was committed until `target`.
    `neutralize` is what `Servers.secure` will be asked for, which may have been done in advance; None: nothing.
    """

    parent: Server
    paused: bool = False
    snapshot_id: str | None = None
    target: datetime | None = None
    base_backup_id: str | None = None
    neutralize: bool | None = None


@dataclass(frozen=True)
class BaseBackup(PlacedInWal):
    """A complete base backup in the off-host archive.

    `size_bytes` is what it takes on disk, `download_bytes` what the archive sends for it. `wal_bytes` and
    `wal_download_bytes` are the same of the WAL from it to the next base backup or, after the last one, to the end.
    """

    id: str
    taken_at: datetime
    start_lsn: str
    end_lsn: str
    timeline: int
    size_bytes: int
    download_bytes: int
    wal_bytes: int
    wal_download_bytes: int


@dataclass(frozen=True)
class Holdings:
    """What the off-host archive has of a service: its complete base backups in the order of the WAL."""

    base_backups: Sequence[BaseBackup]

    def base_for(self, target: datetime | None) -> BaseBackup | None:
        """Return the last base backup that was complete at `target`; None for `target`: the last one."""
        fitting = (base for base in self.base_backups if target is None or base.taken_at <= target)
        return max(fitting, key=lambda base: base.wal_order, default=None)


@dataclass(frozen=True)
class Capture:
    """What was put into a fork's volume: enough to start it without its parent, unless it `needs_parent`.

    `recover_to` is the requested time; None means the end of the captured WAL.
    `facts` go into the fork's report: LSNs, segments, bytes, seconds.
    With `needs_parent` the recovery takes from snapshots and archived WAL of the parent, which it has to keep.
    """

    recover_to: datetime | None
    facts: dict[str, Any] = field(default_factory=dict)
    needs_parent: bool = False


@dataclass(frozen=True)
class Progress:
    """How far something is that takes many calls: `facts` for the report when it is over, `progress` until then."""

    facts: dict[str, Any] | None
    progress: str = ""


@dataclass(frozen=True)
class Readiness:
    """How far a starting server is. `progress` (redo LSN, bytes) changes as long as the start advances."""

    ready: bool
    progress: str = ""


NOT_FOLLOWING = "It does not follow its service now: no WAL is streamed to it."
MOST_SPARES = 20


@dataclass(frozen=True)
class Observation:
    """Whether a server was found serving, or why not.

    `follows` is False for a replica that serves the data it has and receives no WAL. With `is_lost` there is no data.
    With `is_closed` it serves the platform only: its clients were turned away, as by a stop that then failed.
    """

    serving: bool
    reason: str = ""
    follows: bool = True
    is_lost: bool = False
    is_closed: bool = False


@dataclass(frozen=True)
class Sessions:
    """How many clients are connected to a server now; `mark` changes when one connects or works in between."""

    count: int
    mark: str


@dataclass(frozen=True)
class ExtensionUpdate:
    """An extension of a database whose version is not the one that is installed; `problem` says why it stays so."""

    database: str
    extension: str
    from_version: str
    to_version: str
    problem: str | None = None


@dataclass(frozen=True)
class Maintenance:
    """The result of the regular work on a server: how far archiving is behind, None while it keeps up."""

    archive_delay: str | None = None
