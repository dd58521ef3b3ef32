"""The values that backends take and return."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ramet.model.credentials import Secret
from ramet.model.resources import Size
from ramet.model.service import Environment, ServiceType
from ramet.model.snapshot import WalOrder, wal_order


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


@dataclass(frozen=True)
class Maintenance:
    """What was found at the regular work on a server: how far archiving is behind, None while it keeps up."""

    archive_delay: str | None = None
