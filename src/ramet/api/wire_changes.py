"""The shapes of changes to a service: requests, and the sentence that answers those without a body of their own."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ramet.api.wire import Body, Cpu, Memory, Name
from ramet.model.service import Environment

EnvironmentName = Annotated[Environment, Meta(description="One of DEV, PROD.")]
NewPassword = Annotated[
    str, Meta(description="A string of 1 to 1000 printable characters.", extra_json_schema={"format": "password"})
]
Count = Annotated[
    int, Meta(description="The integer 0, since one host has no high availability.", extra_json_schema={"minimum": 0})
]
VpcNumber = Annotated[str, Meta(description="The number of a VPC as a string.")]


class Success(Struct, frozen=True):
    """A sentence that says what was done."""

    message: str


class ServiceRename(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another name for a service."""

    name: Name


class ExtensionsInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which extensions of a service to update."""

    extension: Annotated[str, Meta(description="The name of one extension; without it, all.")] | UnsetType = UNSET


class ExtensionUpdate(Struct, frozen=True, kw_only=True):
    """An extension of a database that was not at the version that is installed."""

    database: str
    extension: str
    from_version: str
    to_version: str
    problem: Annotated[str, Meta(description="A sentence: why it stays at its version.")] | UnsetType = UNSET


class ResizeInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another size for a service."""

    cpu_millis: Cpu
    memory_gbs: Memory


class UpdatePasswordInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another password for the admin of a service."""

    password: NewPassword


class SetEnvironmentInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is at stake from now on."""

    environment: EnvironmentName


class SetHAReplicaInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many high-availability replicas a service is to have."""

    sync_replica_count: Count | UnsetType = UNSET
    replica_count: Count | UnsetType = UNSET


class ServiceVPCInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A private network for a service."""

    vpc_id: VpcNumber


class VPCCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new private network."""

    name: Annotated[str, Meta(description="A name, as a string.")]
    cidr: Annotated[str, Meta(description="A range of addresses, such as 10.0.0.0/16.")]
    region_code: Annotated[str, Meta(description="The region code of this host.")]


class VPCRename(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another name for a private network."""

    name: Annotated[str, Meta(description="A name, as a string.")]


class PeeringCreate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connection of a private network to one elsewhere."""

    peer_account_id: Annotated[str, Meta(description="The account of the other network.")]
    peer_region_code: Annotated[str, Meta(description="The region of the other network.")]
    peer_vpc_id: Annotated[str, Meta(description="The identifier of the other network.")]


class VPC(Struct, frozen=True):
    """A private network; the backend of this host has none."""

    id: str
    name: str
    cidr: str
    region_code: str


class Peering(Struct, frozen=True):
    """A connection of a private network to one elsewhere; the backend of this host has none."""

    id: str
    peer_account_id: str
    peer_region_code: str
    peer_vpc_id: str
