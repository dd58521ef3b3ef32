"""The database elsewhere that a service follows, and how far behind it the service is."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from ramet.model.source_copies import SourceCopies

# A server on a host keeps the progress of so many, and neither starts nor replays with those of more.
MOST_ORIGINS = 100
COPIED_AGAIN = "The source is copied again by itself; until then the service can be forked."


class FollowMethod(StrEnum):
    """How a service follows a source: as a physical standby, or by a subscription."""

    PHYSICAL = "PHYSICAL"
    LOGICAL = "LOGICAL"


class Upstream(Struct, frozen=True, gc=False, kw_only=True):
    """A source that a service follows; its password is not here.

    `bootstrap_role` is the superuser that the source's initdb made. `slot` is a replication slot that exists there;
    with `makes_slot` the service has one of its own instead. `archive` names a directory of this host that has the
    source's archived WAL. `root_certificate` is PEM.
    """

    method: FollowMethod
    host: str
    port: int
    database: str
    user: str
    sslmode: str
    system_identifier: str
    bootstrap_role: str
    root_certificate: str | None = None
    slot: str | None = None
    makes_slot: bool = False
    archive: str | None = None

    def slot_of(self, service_id: str) -> str | None:
        """Return the name of the physical slot that a service streams from; None: it uses none."""
        return own_slot(service_id) if self.makes_slot else self.slot

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}/{self.database}"


def lost_wal(upstream: Upstream) -> str:
    """Say that a source and its standby have diverged on one timeline, and what happens then."""
    return (
        "The source has lost WAL that this service has received: it was set back, or crashed without fsync"
        f" ({upstream}). {COPIED_AGAIN}"
    )


def own_slot(service_id: str) -> str:
    """Return the name of what a service makes for itself in a source."""
    return f"ramet_{service_id}"


class Following(Struct, frozen=True, gc=False, kw_only=True):
    """How far behind its source a service is, as it was observed at `observed_at`.

    `complete_until` is a time of the source's clock: everything that was committed before is in the service.
    `replayed_lsn` is what it has replayed.
    `problem` says why nothing arrives now, or, with `still_receives`, why nobody can log in, with its remedy; None
    otherwise. `needs_copy`: it cannot catch up, and only another copy of the source helps; `copies` are the attempts
    at that. `has_diverged`: the source has lost WAL that the service has, on the same timeline.
    """

    observed_at: datetime
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    complete_until: datetime | None = None
    replayed_lsn: str | None = None
    problem: str | None = None
    needs_copy: bool = False
    copies: SourceCopies | None = None
    has_diverged: bool = False
    still_receives: bool = False

    @property
    def receives_nothing(self) -> bool:
        """Tell whether nothing arrives from the source."""
        return self.problem is not None and not self.still_receives
