"""The services of a project: list, create, get, delete, start, stop, fork.

What only reads runs on the event loop, what writes in a thread: docs/decisions/0006-list-handler.md.
"""

from typing import Annotated, Any, TypeVar

from litestar import Response, Router, delete, get, post
from litestar.params import HeaderParameter, JSONBody
from msgspec import UNSET, UnsetType

from ramet.api.errors import POLLED
from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.plans import PLANNED, DryRun, plan_shape
from ramet.api.responses import PlaneDependency, answer, empty
from ramet.api.schemas.forks import ForkServiceCreate
from ramet.api.schemas.services import Addon, Service, ServiceCreate, ServiceTypeWanted
from ramet.api.shapes import service_shape
from ramet.control import forks, services
from ramet.control.fork_plans import plan_fork
from ramet.control.metrics import usage_now, usages_now
from ramet.control.requests import Accepted, Amount, CreateRequest, ForkRequest
from ramet.errors import Invalid
from ramet.model.service import Environment, ServiceType

_KEY_LIMIT = 255
_Value = TypeVar("_Value")

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        required=False,
        description="1 to 255 visible ASCII characters, random: the same key and body answer with the same service. "
        "`initial_password` is left out when it does not open the service any more.",
        schema_extra={"minLength": 1, "maxLength": _KEY_LIMIT, "pattern": "^[!-~]+$"},
    ),
]


@get("/", operation_id="getServices", summary="List all services", sync_to_thread=False)
def list_services(plane: PlaneDependency, project_id: ProjectId) -> Response[list[Service]]:
    """Every service of the project, in the order of their creation."""
    usages = usages_now(plane, project_id)
    return answer(
        [service_shape(each, None, usages.get(each.id)) for each in services.list_services(plane, project_id)]
    )


@post(
    "/",
    operation_id="createService",
    summary="Create a service",
    status_code=202,
    sync_to_thread=True,
)
def create_service(
    plane: PlaneDependency,
    project_id: ProjectId,
    data: JSONBody[ServiceCreate],
    idempotency_key: IdempotencyKey = None,
) -> Response[Service]:
    """Accept a new, empty service. It is READY later; its password is in this answer only."""
    request = CreateRequest(
        name=data.name,
        service_type=_service_type(data),
        region_code=_given(data.region_code),
        replica_count=_given(data.replica_count) or 0,
        cpu_millis=_amount(data.cpu_millis),
        memory_gbs=_amount(data.memory_gbs),
        environment=_given(data.environment_tag) or Environment.DEV,
        with_vectors=Addon.AI in (_given(data.addons) or []),
    )
    return _accepted(services.create_service(plane, project_id, request, _checked_key(idempotency_key)))


@get(
    "/{service_id:str}",
    operation_id="getService",
    summary="Get a service",
    opt={POLLED: True},
    sync_to_thread=False,
)
def get_service(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Service]:
    """One service. Poll this to see it become READY."""
    service = services.get_service(plane, project_id, service_id)
    return answer(service_shape(service, usage=usage_now(plane, service.id)))


@delete(
    "/{service_id:str}",
    operation_id="deleteService",
    summary="Delete a service",
    status_code=202,
    sync_to_thread=True,
)
def delete_service(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[None]:
    """Accept the deletion of a service with its snapshots and its archive. Forks of it live on."""
    services.delete_service(plane, project_id, service_id)
    return empty(202)


@post(
    "/{service_id:str}/start",
    operation_id="startService",
    summary="Resume a paused service",
    status_code=202,
    sync_to_thread=True,
)
def start_service(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Service]:
    """Accept the resumption of a PAUSED service."""
    return answer(service_shape(services.start_service(plane, project_id, service_id)), 202)


@post(
    "/{service_id:str}/stop",
    operation_id="stopService",
    summary="Pause a service",
    status_code=202,
    sync_to_thread=True,
)
def stop_service(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Service]:
    """Accept the pause of a service: its server stops, its data stays, and it can be forked all the same."""
    return answer(service_shape(services.stop_service(plane, project_id, service_id)), 202)


@post(
    "/{service_id:str}/forkService",
    operation_id="forkService",
    summary="Fork a service",
    status_code=202,
    responses={200: PLANNED},
    sync_to_thread=True,
)
def fork_service(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    data: JSONBody[ForkServiceCreate],
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
) -> Response[Service]:
    """Accept a new service with the data of this one: as of now, of its last snapshot, or of a past moment.

    With dry_run the answer is 200 and tells what would be made; nothing is.
    """
    request = ForkRequest(
        strategy=data.fork_strategy,
        name=_given(data.name),
        region_code=_given(data.region_code),
        cpu_millis=_amount(data.cpu_millis),
        memory_gbs=_amount(data.memory_gbs),
        target_time=_given(data.target_time),
        environment=_given(data.environment_tag) or Environment.DEV,
        snapshot_id=_given(data.snapshot_id),
        quiet=_given(data.quiet),
    )
    if dry_run:
        return answer(plan_shape(plan_fork(plane, project_id, service_id, request)))
    return _accepted(forks.fork_service(plane, project_id, service_id, request, _checked_key(idempotency_key)))


def _accepted(accepted: Accepted) -> Response[Any]:
    return answer(service_shape(accepted.service, accepted.initial_password), 202)


def _given(value: _Value | UnsetType) -> _Value | None:
    return None if value is UNSET else value


def _amount(value: str | int | UnsetType) -> Amount:
    return None if value is UNSET else value


def _service_type(data: JSONBody[ServiceCreate]) -> ServiceType:
    """Return the type that addons ask for; time series include vectors, so both together are TIMESERIESDB."""
    addons = _given(data.addons)
    if Addon.TIME_SERIES in (addons or []):
        meant = ServiceType.TIMESERIESDB
    else:
        meant = ServiceType.VECTOR if addons else ServiceType.POSTGRES
    named = meant if data.service_type is UNSET else _named_type(data.service_type)
    if addons is not None and named is not meant:
        raise Invalid(
            "CONTRADICTION",
            f"service_type {named} and addons {[addon.value for addon in addons]} (a {meant}) contradict each other",
            "Send one of the two.",
        )
    return named


def _named_type(wanted: ServiceTypeWanted) -> ServiceType:
    if wanted is ServiceTypeWanted.TIMESCALEDB:
        return ServiceType.TIMESERIESDB
    return ServiceType(wanted.value)


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (1 <= len(key) <= _KEY_LIMIT and all("!" <= letter <= "~" for letter in key)):
        raise Invalid(
            "INVALID_IDEMPOTENCY_KEY",
            f"Idempotency-Key must have 1 to {_KEY_LIMIT} visible ASCII characters, not {key[:40]!r}",
            "Send a random one, for example a UUID.",
        )
    return key


services_router = Router(
    "/projects/{project_id:str}/services",
    route_handlers=[
        list_services,
        create_service,
        get_service,
        delete_service,
        start_service,
        stop_service,
        fork_service,
    ],
    tags=["Services"],
)
