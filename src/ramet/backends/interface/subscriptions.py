"""Services that receive the changes of a database elsewhere by logical replication, where only SQL is allowed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Progress, Server
from ramet.model.passwords import Secret
from ramet.model.words import listed

_SHOWN_NAMES = 8
# The code of Unavailable while a source cannot be reached, which says nothing of the service.
SOURCE_UNREACHABLE = "SOURCE_UNREACHABLE"


@dataclass(frozen=True)
class PublisherFacts:
    """What was read in a source, as the role that the subscription connects with.

    `free_slots` and `free_senders` are how many more the source allows. `not_owned` are tables that the role may not
    publish, `without_identity` those whose rows cannot be updated or deleted once they are published, and `unlogged`
    those that are not replicated. `materialized_views` are copied without their rows.
    """

    major: int
    wal_level: str
    is_standby: bool
    may_replicate: bool
    may_publish: bool
    free_slots: int
    free_senders: int
    sequence_count: int
    large_object_count: int
    not_owned: tuple[str, ...] = ()
    without_identity: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()
    materialized_views: tuple[str, ...] = ()


@dataclass(frozen=True)
class SubscriptionState:
    """How far a subscription is. `lag_bytes` is the WAL of the source that is not applied yet, None if not known.

    `problem` says why nothing arrives now, with its remedy.
    """

    tables: int
    copied_tables: int
    lag_bytes: int | None
    problem: str | None = None

    @property
    def is_copied(self) -> bool:
        """Whether the first copy of every table is complete."""
        return self.copied_tables == self.tables


def missing_subscription(name: str) -> str:
    """Return the problem of a service without its subscription, whose slot and publication have this name."""
    return (
        "It receives nothing from its source any more: its subscription is gone, as after a recovery from the off-host"
        " archive. Promote the service to keep what it has, or follow the source with a new one. In the source:"
        f" {removal(name)}."
    )


def removal(name: str) -> str:
    """Return the statements that remove the slot and the publication of this name from a source."""
    return f"SELECT pg_drop_replication_slot('{name}'); DROP PUBLICATION {name}"


def unpublished_tables(names: Sequence[str]) -> str:
    """Return the problem of a service that does not receive these tables of its source."""
    return (
        f"The source has tables that are not replicated, such as tables created after the service:"
        f" {listed(names, _SHOWN_NAMES)}. Their rows may be missing here: compare them after the promotion,"
        " or follow the source with a new service."
    )


class Subscriptions(Protocol):
    """Subscriptions of servers here to databases elsewhere. The platform owns them, and tenants see no password."""

    def examine(self, source: SourceAddress, password: Secret) -> PublisherFacts:
        """Read what a subscription depends on; nothing is changed. Raises Invalid when the source cannot be read."""

    def publish(self, server: Server, source: SourceAddress, sealed: str) -> str | None:
        """Make a publication of all tables, and a slot, in the source; keep its password in the server's directory.

        Before the schema is copied: a table that is made later is in neither. Return what they wait for in the source,
        after about a minute; None when both are there. Raises Failed with the source's reason.
        """

    def subscribe(self, server: Server) -> None:
        """Let a serving server that has the schema copy what is published, and receive its changes from then on.

        Raises Unavailable with the code SOURCE_UNREACHABLE while the source cannot be reached.
        """

    def observe(self, server: Server) -> SubscriptionState:
        """Return how far the subscription of a serving server is."""

    def finish(self, server: Server, promotion_id: str, timeout_seconds: float) -> Progress:
        """Wait until all is applied that the source has committed at the first call; then end the subscription.

        Another `promotion_id` is another first call. The values of sequences are carried over before; tables and
        sequences that were not replicated are named. Publication, slot and password are removed; `left_in_source` says
        what stays in a source that cannot be reached by then. Once the subscription has ended, each call returns the
        same again until `discard`, whatever the source commits.
        """

    def detach(self, server: Server) -> None:
        """Drop the subscription from a running server, which was recovered; the source is not contacted.

        What the source has sent since then is not in the server, and is not sent again.
        """

    def discard(self, service_id: str) -> str | None:
        """Remove publication and slot from the source, and the password.

        Return a warning when these stay, because the source cannot be reached; None otherwise. The same call tries it
        again then, and returns it again: the password goes with the server.
        """
