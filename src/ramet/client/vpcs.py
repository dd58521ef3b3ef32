"""Private networks and their peerings, which the server refuses: no backend has them."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.shared import Success
from ramet.client.connection import Connection


class Vpcs(Connection):
    """The operations on private networks."""

    def list_vpcs(self) -> list[schemas.vpcs.VPC]:
        """Return the private networks of the project."""
        return self.call("GET", self.project_path("vpcs"), list[schemas.vpcs.VPC])

    def create_vpc(self, name: str, cidr: str, region_code: str) -> schemas.vpcs.VPC:
        """Create a private network."""
        body = {"name": name, "cidr": cidr, "region_code": region_code}
        return self.call("POST", self.project_path("vpcs"), schemas.vpcs.VPC, body)

    def get_vpc(self, vpc_id: str) -> schemas.vpcs.VPC:
        """Return a private network."""
        return self.call("GET", self.project_path("vpcs", vpc_id), schemas.vpcs.VPC)

    def rename_vpc(self, vpc_id: str, name: str) -> None:
        """Rename a private network."""
        self.send("POST", self.project_path("vpcs", vpc_id, "rename"), {"name": name})

    def delete_vpc(self, vpc_id: str) -> None:
        """Delete a private network."""
        self.send("DELETE", self.project_path("vpcs", vpc_id))

    def list_peerings(self, vpc_id: str) -> list[schemas.vpcs.Peering]:
        """Return the connections of a private network to others."""
        return self.call("GET", self.project_path("vpcs", vpc_id, "peerings"), list[schemas.vpcs.Peering])

    def create_peering(
        self, vpc_id: str, peer_account_id: str, peer_region_code: str, peer_vpc_id: str
    ) -> schemas.vpcs.Peering:
        """Connect a private network to another one."""
        body = {"peer_account_id": peer_account_id, "peer_region_code": peer_region_code, "peer_vpc_id": peer_vpc_id}
        return self.call("POST", self.project_path("vpcs", vpc_id, "peerings"), schemas.vpcs.Peering, body)

    def get_peering(self, vpc_id: str, peering_id: str) -> schemas.vpcs.Peering:
        """Return a connection of a private network."""
        return self.call("GET", self.project_path("vpcs", vpc_id, "peerings", peering_id), schemas.vpcs.Peering)

    def delete_peering(self, vpc_id: str, peering_id: str) -> None:
        """Delete a connection of a private network."""
        self.send("DELETE", self.project_path("vpcs", vpc_id, "peerings", peering_id))

    def attach_to_vpc(self, service_id: str, vpc_id: str) -> str:
        """Give a service an endpoint in a private network; return the server's message."""
        return self.call("POST", self.path(service_id, "attachToVPC"), Success, {"vpc_id": vpc_id}).message

    def detach_from_vpc(self, service_id: str, vpc_id: str) -> str:
        """Take the endpoint of a service in a private network away; return the server's message."""
        return self.call("POST", self.path(service_id, "detachFromVPC"), Success, {"vpc_id": vpc_id}).message
