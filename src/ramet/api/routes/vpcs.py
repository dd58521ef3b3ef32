"""What no backend of Ramet offers, as one table: VPCs and their peerings. Lists are empty, the rest is refused."""

import inspect
import re
from typing import Annotated, Any, NamedTuple

from litestar import Response, Router, route
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from litestar.types import Method

from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.responses import PlaneDependency, answer
from ramet.api.schemas.shared import Success
from ramet.api.schemas.vpcs import VPC, Peering, PeeringCreate, ServiceVPCInput, VPCCreate, VPCRename
from ramet.control import services
from ramet.errors import Invalid, NotFound

_NONE = "VPC_NONE"
_UNKNOWN = "VPC_NOT_FOUND"
_REFUSED = "VPC_NOT_AVAILABLE"
_DESCRIPTIONS = {
    _NONE: "Returns an empty list: no backend of Ramet has private networks.",
    _UNKNOWN: "Not found: no backend of Ramet has private networks.",
    _REFUSED: "Refused: no backend of Ramet has private networks.",
}
_NUMBER = {"pattern": "^[0-9]+$"}
_PARAMETERS: dict[str, Any] = {
    "project_id": ProjectId,
    "service_id": ServiceId,
    "vpc_id": Annotated[str, PathParameter(description="Number of the VPC.", schema_extra=_NUMBER)],
    "peering_id": Annotated[str, PathParameter(description="Number of the peering.", schema_extra=_NUMBER)],
}


class _Operation(NamedTuple):
    method: Method
    path: str
    operation_id: str
    summary: str
    outcome: str
    status: int
    returns: Any
    body: Any = None


_VPC = "/vpcs/{vpc_id:str}"
_PEERING = _VPC + "/peerings/{peering_id:str}"
_SERVICE = "/services/{service_id:str}"
_OPERATIONS = [_Operation(*row) for row in (
    ("GET", "/vpcs", "getVPCs", "List VPCs", _NONE, 200, Response[list[VPC]]),
    ("POST", "/vpcs", "createVPC", "Create a VPC", _REFUSED, 201, Response[VPC], JSONBody[VPCCreate]),
    ("GET", _VPC, "getVPC", "Get a VPC", _UNKNOWN, 200, Response[VPC]),
    ("DELETE", _VPC, "deleteVPC", "Delete a VPC", _UNKNOWN, 204, None),
    ("POST", _VPC + "/rename", "renameVPC", "Rename a VPC", _UNKNOWN, 200, Response[Success], JSONBody[VPCRename]),
    ("GET", _VPC + "/peerings", "getVPCPeerings", "List the peerings of a VPC", _NONE, 200, Response[list[Peering]]),
    ("POST", _VPC + "/peerings", "createVPCPeering", "Create a peering of a VPC", _REFUSED, 201, Response[Peering],
     JSONBody[PeeringCreate]),
    ("GET", _PEERING, "getVPCPeering", "Get a peering of a VPC", _UNKNOWN, 200, Response[Peering]),
    ("DELETE", _PEERING, "deleteVPCPeering", "Delete a peering of a VPC", _UNKNOWN, 204, None),
    ("POST", _SERVICE + "/attachToVPC", "attachServiceToVPC", "Attach a service to a VPC", _REFUSED, 202,
     Response[Success], JSONBody[ServiceVPCInput]),
    ("POST", _SERVICE + "/detachFromVPC", "detachServiceFromVPC", "Detach a service from its VPC", _REFUSED, 202,
     Response[Success], JSONBody[ServiceVPCInput]),
)]  # fmt: skip


def _handler(operation: _Operation) -> HTTPRouteHandler:
    """Return the handler of a row. Its signature is what Litestar checks requests by, and documents."""

    async def respond(**request: Any) -> Any:
        if "plane" in request:
            services.get_service(request["plane"], request["project_id"], request["service_id"])
        if operation.outcome == _NONE:
            return answer([])
        if operation.outcome == _UNKNOWN:
            details = f"vpc_id {request['vpc_id'][:64]!r}; no backend of Ramet has VPCs"
            raise NotFound(_UNKNOWN, "no VPC with that id exists", details)
        message = f"Cannot {operation.summary.lower().replace('vpc', 'VPC')}: no backend of Ramet has private networks"
        raise Invalid(_REFUSED, message, "Connect to the endpoint of the service.")

    takes = {name: _PARAMETERS[name] for name in ("project_id", *re.findall(r"{(\w+):", operation.path))}
    if "service_id" in takes:
        takes["plane"] = PlaneDependency
    if operation.body is not None:
        takes["data"] = operation.body
    respond.__annotations__ = {**takes, "return": operation.returns}
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=takes[name]) for name in takes]
    respond.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return route(
        operation.path,
        http_method=operation.method,
        operation_id=operation.operation_id,
        summary=operation.summary,
        description=_DESCRIPTIONS[operation.outcome],
        status_code=operation.status,
    )(respond)


vpcs_router = Router("/projects/{project_id:str}", route_handlers=[_handler(row) for row in _OPERATIONS], tags=["VPCs"])
