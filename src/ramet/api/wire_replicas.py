"""The shapes of requests about read replica sets."""

from typing import Annotated

from msgspec import Meta

from ramet.api.wire import Body, Name

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
