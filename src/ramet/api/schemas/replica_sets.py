"""The schemas of read replica sets."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, ConnectionPooler, Endpoint, Identifier, Name
from ramet.model.environment import Environment
from ramet.model.status import ReplicaSetStatus


class ReplicaSetMetadata(Struct, frozen=True, omit_defaults=True):
    """Further properties of a read replica set."""

    environment: Environment
    status_reason: Annotated[str, Meta(description="Why the set does not accept connections.")] | None = None


class ReadReplicaSet(Struct, frozen=True, omit_defaults=True):
    """A set of read-only copies of a service behind one endpoint."""

    id: Identifier
    name: str
    status: ReplicaSetStatus
    nodes: int
    cpu_millis: int
    memory_gbs: int
    metadata: ReplicaSetMetadata
    endpoint: Endpoint
    connection_pooler: ConnectionPooler | None = None


Nodes = Annotated[
    int,
    Meta(
        description="An integer from 1 to 4: equal servers behind one endpoint.",
        extra_json_schema={"minimum": 1, "maximum": 4},
    ),
]
CpuAmount = Annotated[
    str | int, Meta(description="Thousandths of a core of each node, such as 500.", extra_json_schema={"minimum": 1})
]
MemoryAmount = Annotated[
    str | int, Meta(description="Gigabytes of each node, such as 2.", extra_json_schema={"minimum": 1})
]


class ReadReplicaSetCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new set of read-only copies of a service."""

    name: Name
    nodes: Nodes
    cpu_millis: CpuAmount
    memory_gbs: MemoryAmount
