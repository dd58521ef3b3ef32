"""What procedures ask of the place where servers live: one narrow protocol, complete by construction.

Every method may run twice, also after a crash half way: it looks first, then acts. Nothing here knows of operations,
leases or the store. Errors: `Failed` when repeating cannot help; any other exception is retried by the caller.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ramet.model.credentials import Secret
from ramet.model.logs import LogPage, LogQuery
from ramet.model.resources import Size
from ramet.model.service import Environment, ServiceType
from ramet.model.snapshot import Snapshot, WalOrder, wal_order
from ramet.model.window import Gap


@dataclass(frozen=True)
class Primary:
    """The service that a replica follows: its id, and the port of its endpoint."""

    service_id: str
    port: int


@dataclass(frozen=True)
class Server:
    """What a backend must know of a service to run its server. Port 0: a server that no client can reach."""

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


@dataclass(frozen=True)
class SnapshotFacts:
    """What a snapshot holds; see ramet.model.snapshot.Snapshot."""

    taken_at: datetime
    start_lsn: str
    end_lsn: str
    timeline: int
    next_xid: int
    size_bytes: int

    @property
    def wal_order(self) -> WalOrder:
        """Return what orders the snapshots of a service: clocks may go back, WAL does not."""
        return wal_order(self.timeline, self.end_lsn, self.taken_at)


@dataclass(frozen=True)
class Source:
    """Where a fork's data comes from.

    Neither `snapshot_id` nor `target`: the parent as it is now. `snapshot_id` alone: that snapshot.
    Both: that snapshot, rolled forward to the last commit at or before `target`.
    `paused` says that the parent's server is cleanly stopped and stays so.
    """

    parent: Server
    paused: bool = False
    snapshot_id: str | None = None
    target: datetime | None = None


@dataclass(frozen=True)
class Capture:
    """What was put into a fork's volume: enough to start it without its parent.

    `recover_to` is the time that was asked for, or None where the end of the WAL that was captured is the state wanted.
    `facts` go into the fork's report: LSNs, segments, bytes, seconds.
    """

    recover_to: datetime | None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recovery:
    """How far the recovery of a captured volume is: `facts` for the report when it is over, `progress` until then."""

    facts: dict[str, Any] | None
    progress: str = ""


@dataclass(frozen=True)
class Readiness:
    """How far a starting server is. `progress` changes as long as it gets on (redo LSN, bytes)."""

    ready: bool
    progress: str = ""


NOT_FOLLOWING = "It does not follow its service now: no WAL is streamed to it."
MOST_SPARES = 20


@dataclass(frozen=True)
class Observation:
    """What was seen of a server: serving, or why not. `facts` hold figures such as the newest archived segment.

    `follows` is False for a replica that serves what it has and gets nothing new.
    """

    serving: bool
    reason: str = ""
    follows: bool = True
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExtensionUpdate:
    """An extension of a database whose version is not the one that is installed; `problem` says why it stays so."""

    database: str
    extension: str
    from_version: str
    to_version: str
    problem: str | None = None


class Backend(Protocol):
    """A place where PostgreSQL servers live."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def host_size(self) -> Size:
        """Return the CPU and memory that the largest service may have."""

    def default_pg_major(self, service_type: ServiceType) -> int:
        """Return the PostgreSQL major version of new services of a type."""

    def has_tls(self, pg_major: int) -> bool:
        """Tell whether the endpoints of services of a PostgreSQL major version take TLS."""

    def volume_type(self) -> str:
        """Return the storage driver's name: reflink, btrfs, copy or memory."""

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        """Raise Invalid, saying what to install, when the installation lacks the type's extension."""

    def check_room(self, source: Source | None) -> None:
        """Raise Exhausted when the volume has no room for a new service (None) or for such a fork."""

    def port_is_free(self, port: int) -> bool:
        """Tell whether nothing on the host listens on `port`."""

    def describe(self) -> Sequence[tuple[str, str]]:
        """Return what is in force here, as (title, sentence) rows for `ramet doctor`."""

    def initialize(self, server: Server) -> None:
        """Make the volume with an empty cluster."""

    def capture(self, child: Server, source: Source) -> Capture | None:
        """Copy the data of `source` into the child's new volume; the parent is not harmed and not needed afterwards.

        None means that the parent's server is not serving at this moment: ask again.
        """

    def recover(self, child: Server, capture: Capture, patience_seconds: float) -> Recovery:
        """Bring captured data to the state that `capture` names, and prove it; watch for at most `patience_seconds`.

        Nobody can reach it meanwhile. Raises Failed when it cannot get there, or stopped elsewhere.
        """

    def start(self, server: Server, *, first: bool = False) -> None:
        """Start the server, closed to clients; `first` is a fork's first start."""

    def resume(self, server: Server) -> None:
        """Start a server whose credentials are its own; clients are let in as soon as it is ready."""

    def await_ready(self, server: Server, patience_seconds: float) -> Readiness:
        """Watch a starting server for at most `patience_seconds`.

        When it died it raises, with its log: Failed when it gave up, Unavailable when it was killed and may be started
        again.
        """

    def secure(self, server: Server, *, newborn: bool, quiet: bool) -> dict[str, Any]:
        """Give the server its own credentials; return what was neutralised, for the report.

        `newborn`: create database, roles and extensions first. Otherwise it is a fork: all login roles get new
        passwords, and with `quiet` whatever acts on the outside world is disabled.
        """

    def renew(self, server: Server) -> bool:
        """Give a serving server that an earlier release made what this one gives to new ones; False: ask again.

        May run again.
        """

    def examine(self, child: Server, parent_id: str | None) -> dict[str, Any]:
        """Return what a serving fork's report should add: what did not come along, where its history ends."""

    def analyze(self, server: Server, patience_seconds: float) -> str | None:
        """Collect the statistics of a serving server; return how that ended, None while it is under way."""

    def check_data(self, server: Server, patience_seconds: float) -> str | None:
        """Read all data of a throw-away server for damage; None while that goes on, then the complaints, or ""."""

    def tend_archive(self, service_id: str) -> str | None:
        """Note what was archived since the last call; say how far archiving is behind, None while it keeps up."""

    def walk_archive(self, service_id: str, after: str) -> str | None:
        """Compare archived WAL with what was noted, from the name `after` on, for a moment.

        Return the name to go on from, None at the end. Raises Failed there when anything was wrong; it shows in `gaps`
        too, where nothing else can replace it.
        """

    def open(self, server: Server) -> None:
        """Let clients in, and return when the endpoint answers them, and its pooler if it has one."""

    def update_extensions(self, server: Server, name: str | None) -> Sequence[ExtensionUpdate]:
        """Update one extension of a serving server, or all, to the versions that are installed; say what was tried."""

    def check_extensions(self, server: Server, moment: datetime) -> None:
        """Raise Invalid when a past state of a server needs a library that is not installed any more."""

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Give the admin of a serving server another password. Raises Unavailable when it is not serving."""

    def has_password(self, server: Server, password: Secret) -> bool:
        """Tell whether this password opens a server to the admin; False too where the server cannot be asked."""

    def resize(self, server: Server) -> bool:
        """Put the size of `server` in force as far as that goes while it serves; False when it must be restarted."""

    def stop(self, server: Server) -> None:
        """Turn clients away, archive what was written, stop cleanly. Its pooler ends first."""

    def destroy(self, service_id: str) -> None:
        """Stop the server and remove all that it had on the host; its snapshots and archive too."""

    def check_pooled_database(self, server: Server) -> None:
        """Raise Invalid when a server that serves and follows nobody lacks the database that poolers are for."""

    def check_pooler(self) -> str:
        """Return what clients of a transaction pool must heed here, empty for nothing.

        Raises Invalid, saying what to install, when this host can have no poolers.
        """

    def replicate(self, replica: Server) -> bool:
        """Make the replica's volume from its primary, which is not harmed; started, it follows that.

        False means that the primary's server is not serving at this moment: ask again.
        """

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        """Make `port` the endpoint of several replicas that serve, in turns; it is the first one's."""

    def balancer_serves(self, service_id: str) -> bool:
        """Tell whether the balancer that a replica carries runs."""

    def start_pooler(self, servers: Sequence[Server], port: int) -> None:
        """Make the pooler of serving servers answer clients on `port`; it is the first one's. May run when it does."""

    def stop_pooler(self, service_id: str) -> None:
        """End the pooler of a service, if it has one, and remove it."""

    def pooler_serves(self, service_id: str) -> bool:
        """Tell whether the pooler of a service runs."""

    def take_snapshot(self, server: Server, snapshot_id: str, paused: bool) -> SnapshotFacts | None:
        """Make a snapshot; None means that the server is not serving at this moment: ask again."""

    def prepare_snapshot(self, server: Server, snapshot_id: str, patience_seconds: float, spares: int) -> str | None:
        """Make the newest snapshot quick to fork; None when it is, a text that changes while that goes on.

        As many as `spares` forks, 1 to MOST_SPARES, shall find all done when they come at once. Raises Failed when the
        snapshot cannot be recovered.
        """

    def unprepare_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove what `prepare_snapshot` made, also half made."""

    def drop_snapshot(self, service_id: str, snapshot_id: str) -> None:
        """Remove a snapshot."""

    def snapshot_ids(self, service_id: str) -> frozenset[str] | None:
        """Return the snapshots whose files are there; None when the service's directory is not, so nobody can tell."""

    def trim_archive(self, service_id: str, timeline: int, before_lsn: str) -> int:
        """Remove archived WAL that lies wholly before `before_lsn`; return the number of segments removed."""

    def gaps(self, service_id: str, snapshots: Sequence[Snapshot]) -> Sequence[Gap]:
        """Return the moments after the oldest of `snapshots` that missing WAL has made unreachable, in order."""

    def written_since(self, server: Server, snapshot: SnapshotFacts) -> int | None:
        """Return the bytes of WAL since a snapshot; 0 when no transaction wrote anything; None when not serving."""

    def shortage(self, *, lasting: bool) -> str | None:
        """Say that so little room is left that writing servers may go down; None while there is enough.

        `lasting`: that was said before, and it takes more room than that to be over.
        """

    def quota_shortage(self, server: Server, *, lasting: bool) -> str | None:
        """Say that a service has used up nearly all of its own quota; None while there is enough, or no quota."""

    def hold_writes(self, server: Server, *, held: bool) -> None:
        """Make the sessions of a serving server read-only, ending those that write, or lift that again."""

    def heed_readers(self, server: Server) -> None:
        """Take the rights to write from roles that tenants marked as read-only since the last call."""

    def observe(self, server: Server) -> Observation:
        """Look at a server that should be serving. Raises Unseen when that cannot be seen now."""

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        """Return a page of the server's own log, newest first, without secrets. Raises Invalid for a bad cursor."""

    def trim_log(self, service_id: str) -> None:
        """Remove what is too old or too much of a server's own log, which may be written meanwhile."""

    def measure(self, server: Server) -> dict[str, float] | None:
        """Return what is measured of a server now, by the keys of ramet.model.metrics; None when it does not serve."""

    def space_bytes(self, service_id: str) -> int | None:
        """Return the bytes that the service alone occupies, shared blocks left out; None where it cannot be told."""

    def give_back(self) -> None:
        """Give the host back what deleted services took of its disk, where that does not come by itself."""

    def stop_all(self) -> None:
        """Stop every server of this data root cleanly, those of earlier processes too."""

    def close(self) -> None:
        """Let go of the host: files, threads. Servers go on."""
