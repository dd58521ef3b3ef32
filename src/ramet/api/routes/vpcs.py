"""Private networks over HTTP: the backend of this host has none, so lists are empty and changes are refused."""

from typing import Annotated

from litestar import Response, Router, delete, get, post
from litestar.params import JSONBody, PathParameter

from ramet.api.responses import PlaneDependency, ProjectId, ServiceId, answer, errors
from ramet.api.schemas.shared import Success
from ramet.api.schemas.vpcs import VPC, Peering, PeeringCreate, ServiceVPCInput, VPCCreate, VPCRename
from ramet.control import services
from ramet.errors import Invalid, NotFound

VpcId = Annotated[str, PathParameter(description="Number of the VPC.")]
PeeringId = Annotated[str, PathParameter(description="Number of the peering.")]
_CHANGING = (400, 403, 404, 413, 415)


@get("/vpcs", operation_id="getVPCs", summary="List VPCs", responses=errors(403))
async def list_vpcs(project_id: ProjectId) -> Response[list[VPC]]:
    """None: this backend has no private networks."""
    return answer([])


@post("/vpcs", operation_id="createVPC", summary="Create a VPC", status_code=201, responses=errors(*_CHANGING))
async def create_vpc(project_id: ProjectId, data: JSONBody[VPCCreate]) -> Response[VPC]:
    """Refused: this backend has no private networks."""
    raise _no_vpc("A VPC")


@get("/vpcs/{vpc_id:str}", operation_id="getVPC", summary="Get a VPC", responses=errors(403, 404))
async def get_vpc(project_id: ProjectId, vpc_id: VpcId) -> Response[VPC]:
    """Not found: this backend has no private networks."""
    raise _unknown(vpc_id)


@delete("/vpcs/{vpc_id:str}", operation_id="deleteVPC", summary="Delete a VPC", responses=errors(403, 404))
async def delete_vpc(project_id: ProjectId, vpc_id: VpcId) -> None:
    """Not found: this backend has no private networks."""
    raise _unknown(vpc_id)


@post(
    "/vpcs/{vpc_id:str}/rename",
    operation_id="renameVPC",
    summary="Rename a VPC",
    status_code=200,
    responses=errors(*_CHANGING),
)
async def rename_vpc(project_id: ProjectId, vpc_id: VpcId, data: JSONBody[VPCRename]) -> Response[Success]:
    """Not found: this backend has no private networks."""
    raise _unknown(vpc_id)


@get(
    "/vpcs/{vpc_id:str}/peerings",
    operation_id="getVPCPeerings",
    summary="List the peerings of a VPC",
    responses=errors(403, 404),
)
async def list_peerings(project_id: ProjectId, vpc_id: VpcId) -> Response[list[Peering]]:
    """None: this backend has no private networks, so no network has peerings."""
    return answer([])


@post(
    "/vpcs/{vpc_id:str}/peerings",
    operation_id="createVPCPeering",
    summary="Create a peering of a VPC",
    status_code=201,
    responses=errors(*_CHANGING),
)
async def create_peering(project_id: ProjectId, vpc_id: VpcId, data: JSONBody[PeeringCreate]) -> Response[Peering]:
    """Refused: this backend has no private networks."""
    raise _no_vpc("A peering")


@get(
    "/vpcs/{vpc_id:str}/peerings/{peering_id:str}",
    operation_id="getVPCPeering",
    summary="Get a peering of a VPC",
    responses=errors(403, 404),
)
async def get_peering(project_id: ProjectId, vpc_id: VpcId, peering_id: PeeringId) -> Response[Peering]:
    """Not found: this backend has no private networks."""
    raise _unknown(vpc_id)


@delete(
    "/vpcs/{vpc_id:str}/peerings/{peering_id:str}",
    operation_id="deleteVPCPeering",
    summary="Delete a peering of a VPC",
    responses=errors(403, 404),
)
async def delete_peering(project_id: ProjectId, vpc_id: VpcId, peering_id: PeeringId) -> None:
    """Not found: this backend has no private networks."""
    raise _unknown(vpc_id)


@post(
    "/services/{service_id:str}/attachToVPC",
    operation_id="attachServiceToVPC",
    summary="Attach a service to a VPC",
    status_code=202,
    responses=errors(*_CHANGING),
    sync_to_thread=True,
)
def attach_to_vpc(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ServiceVPCInput]
) -> Response[Success]:
    """Refused: this backend has no private networks."""
    services.get_service(plane, project_id, service_id)
    raise _no_vpc("To attach a service")


@post(
    "/services/{service_id:str}/detachFromVPC",
    operation_id="detachServiceFromVPC",
    summary="Detach a service from its VPC",
    status_code=202,
    responses=errors(*_CHANGING),
    sync_to_thread=True,
)
def detach_from_vpc(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ServiceVPCInput]
) -> Response[Success]:
    """Refused: this backend has no private networks."""
    services.get_service(plane, project_id, service_id)
    raise _no_vpc("To detach a service")


def _unknown(vpc_id: str) -> NotFound:
    return NotFound("VPC_NOT_FOUND", "no VPC with that id exists", f"vpc_id {vpc_id[:64]!r}; this backend has none")


vpcs_router = Router(
    "/projects/{project_id:str}",
    route_handlers=[
        list_vpcs,
        create_vpc,
        get_vpc,
        delete_vpc,
        rename_vpc,
        list_peerings,
        create_peering,
        get_peering,
        delete_peering,
        attach_to_vpc,
        detach_from_vpc,
    ],
    tags=["VPCs"],
)


def _no_vpc(what: str) -> Invalid:
    return Invalid(
        "VPC_NOT_AVAILABLE",
        f"{what} needs private networks, and the backend of this host has none",
        "Connect to the endpoint of the service.",
    )
