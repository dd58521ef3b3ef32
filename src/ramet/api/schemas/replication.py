"""The schemas of logical replication from a service."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body
from ramet.model.wal_level import WalLevel

WalLevelName = Annotated[WalLevel, Meta(description="One of replica, logical.")]
Limit = Annotated[
    int | None,
    Meta(description="How much WAL a slot may retain: one that retains more is lost. Null if the server is stopped."),
]
Retained = Annotated[int | None, Meta(description="The WAL that the slot retains; null if none, or if not known.")]


class ReplicationSlot(Struct, frozen=True):
    """A replication slot. Of a stopped server only the names are known."""

    name: str
    database: Annotated[str | None, Meta(description="Null for a physical slot.")]
    plugin: Annotated[str | None, Meta(description="The output plugin; null for a physical slot.")]
    active: bool
    wal_status: Annotated[
        str | None, Meta(description="PostgreSQL's: reserved, extended, unreserved or lost; null if not known.")
    ]
    retained_bytes: Retained


class Replication(Struct, frozen=True):
    """The wal_level of a service, and its replication slots; on Kubernetes none while the server is stopped."""

    wal_level: WalLevelName
    slot_limit_bytes: Limit
    slots: list[ReplicationSlot]


class SetWalLevelInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wal_level: `logical` for publications, else `replica`."""

    wal_level: WalLevelName
