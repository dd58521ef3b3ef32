"""The schemas of VPCs and peerings, which no backend of Ramet has."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body

VpcNumber = Annotated[str, Meta(description="The number of a VPC as a string.")]


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
