"""Services: list, create, get, delete, start, stop, and change.

Handlers that only read run on the event loop, those that write in a thread: docs/decisions/0006-list-handler.md.
"""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET

from ramet.api.errors import POLLED
from ramet.api.listed import encoded_list
from ramet.api.parameters import (
    CursorOfLink,
    IdempotencyKey,
    OptionalLimit,
    Prefer,
    ProjectId,
    ServiceId,
    checked_key,
    preferred_wait,
)
from ramet.api.responses import (
    OF_PROJECT,
    ListingDependency,
    PlaneDependency,
    ServicePath,
    WaitsDependency,
    accept,
    accept_deletion,
    answer,
    change,
    empty,
    link_to_next,
    read,
    read_or_wait,
    router_of,
)
from ramet.api.schemas.following import ServiceFollow
from ramet.api.schemas.imports import ServiceImport
from ramet.api.schemas.life_spans import KeptBody
from ramet.api.schemas.service_bodies import (
    Addon,
    ExtensionsInput,
    ResizeInput,
    ServiceCreate,
    ServiceRename,
    ServiceTypeWanted,
    SetEnvironmentInput,
    SetHAReplicaInput,
    UpdatePasswordInput,
)
from ramet.api.schemas.services import ExtensionUpdate, Service
from ramet.api.schemas.shared import Success
from ramet.api.shapes import service_shape
from ramet.control import services
from ramet.control.high_availability import set_ha as set_standbys
from ramet.control.metrics import usage_now
from ramet.control.plane import Plane
from ramet.control.requests import Accepted, CreateRequest
from ramet.errors import Invalid
from ramet.model import service as model
from ramet.model.cursor import check_limit, decode_cursor, time_and_id
from ramet.model.environment import Environment
from ramet.model.labels import MOST_LABELS, parse_filter
from ramet.model.life_span import LifeTerms
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.wal_level import WalLevel

Label = Annotated[
    list[str] | None,
    QueryParameter(
        name="label",
        required=False,
        description="key=value or key, repeated: only services with all these labels.",
        schema_extra={"maxItems": MOST_LABELS},
    ),
]


@read("/", operation_id="getServices", summary="List all services")
def list_services(
    plane: PlaneDependency,
    listing: ListingDependency,
    project_id: ProjectId,
    label: Label = None,
    limit: OptionalLimit = None,
    cursor: CursorOfLink = None,
) -> Response[list[Service]]:
    """Every service of the project, or those with all the labels, in the order of their creation."""
    filters = [parse_filter(text) for text in label or ()]
    if limit is not None:
        check_limit(limit)
    after = None if cursor is None else decode_cursor(cursor, time_and_id)
    found = listing.list_services(plane, project_id, after, None if limit is None or filters else limit + 1)
    if filters:
        found = [(each, usage) for each, usage in found if each.is_accepted(filters)]
    if limit is None or len(found) <= limit:
        return answer(encoded_list(found))
    page = found[:limit]
    return answer(encoded_list(page), headers=link_to_next(label=label, limit=limit, cursor=page[-1][0].cursor))


@accept("/", operation_id="createService", summary="Create a service")
def create_service(
    plane: PlaneDependency,
    project_id: ProjectId,
    data: JSONBody[ServiceCreate],
    idempotency_key: IdempotencyKey = None,
) -> Response[Service]:
    """Accept a new, empty service. Poll it until it is READY. Only this response contains its password."""
    request = create_request(
        data,
        service_type=_service_type(data),
        region_code=data.region_code,
        replica_count=data.replica_count or 0,
        with_vectors=Addon.AI in (data.addons or []),
        wal_level=data.wal_level or WalLevel.REPLICA,
    )
    return accepted_service(services.create_service(plane, project_id, request, checked_key(idempotency_key)))


@read_or_wait("/{service_id:str}", operation_id="getService", summary="Get a service", opt={POLLED: True})
async def get_service(
    request: Request[Any, Any, Any],
    plane: PlaneDependency,
    waits: WaitsDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    prefer: Prefer = None,
) -> Response[Service]:
    """One service. Poll this to see it become READY, or let the response wait for that."""
    seconds = preferred_wait(prefer)
    if not seconds:
        return _seen(plane, services.get_service(plane, project_id, service_id))
    begun = time.perf_counter()
    try:
        service = await waits.settled(plane, project_id, service_id, seconds)
    finally:
        request.state.waited_seconds = time.perf_counter() - begun
    return _seen(plane, service, {"Preference-Applied": f"wait={seconds}"})


def _seen(plane: Plane, service: model.Service, headers: Mapping[str, str] | None = None) -> Response[Service]:
    return answer(service_shape(service, usage=usage_now(plane, service.id)), headers=headers)


@accept_deletion("/{service_id:str}", operation_id="deleteService", summary="Delete a service")
def delete_service(at: ServicePath) -> Response[None]:
    """Accept the deletion of a service with its snapshots and its local archive. Its forks are not affected.

    What the off-host archive has of it stays there until it expires, and can be forked.
    """
    services.delete_service(*at)
    return empty(202)


@accept("/{service_id:str}/start", operation_id="startService", summary="Resume a paused service")
def start_service(at: ServicePath) -> Response[Service]:
    """Accept the resumption of a PAUSED service."""
    return answer(service_shape(services.start_service(*at)), 202)


@accept("/{service_id:str}/stop", operation_id="stopService", summary="Pause a service")
def stop_service(at: ServicePath) -> Response[Service]:
    """Accept the pause of a service: its server stops, its data is kept, and it can still be forked."""
    return answer(service_shape(services.stop_service(*at)), 202)


@change("/{service_id:str}/rename", operation_id="renameService", summary="Rename a service")
def rename_service(at: ServicePath, data: JSONBody[ServiceRename]) -> Response[Service]:
    """Rename the service. Its endpoint, forks and connections are not affected."""
    return answer(service_shape(services.rename_service(*at, data.name)))


@accept("/{service_id:str}/resize", operation_id="resizeService", summary="Resize a service")
def resize_service(at: ServicePath, data: JSONBody[ResizeInput]) -> Response[Service]:
    """Accept a new size. It takes effect without a restart where PostgreSQL allows that."""
    return answer(service_shape(services.resize_service(*at, data.cpu_millis, data.memory_gbs)), 202)


@accept("/{service_id:str}/optimize", operation_id="optimizeService", summary="Optimize a service")
def optimize_service(at: ServicePath) -> Response[Service]:
    """Accept an ANALYZE of all databases. The service is OPTIMIZING and still accepts connections."""
    return answer(service_shape(services.optimize_service(*at)), 202)


@change(
    "/{service_id:str}/updateExtensions", operation_id="updateExtensions", summary="Update the extensions of a service"
)
def update_extensions(at: ServicePath, data: JSONBody[ExtensionsInput]) -> Response[list[ExtensionUpdate]]:
    """Update extensions, in all databases, to the versions that are installed on the host, as the platform.

    The response lists each extension that was not at that version; one with a problem was not updated.
    """
    made = services.update_extensions(*at, data.extension)
    return answer(msgspec.convert(made, list[ExtensionUpdate], from_attributes=True))


@change(
    "/{service_id:str}/updatePassword",
    operation_id="updatePassword",
    summary="Change the admin's password",
    status_code=204,
)
def update_password(at: ServicePath, data: JSONBody[UpdatePasswordInput]) -> Response[None]:
    """Change the password of tsdbadmin. Open sessions continue; new ones need the new password."""
    services.update_password(*at, Secret(data.password))
    return empty(204)


@change("/{service_id:str}/setEnvironment", operation_id="setEnvironment", summary="Set the environment of a service")
def set_environment(at: ServicePath, data: JSONBody[SetEnvironmentInput]) -> Response[Success]:
    """Set the environment: PROD (a restore or a move needs its name) or DEV (neutralized when forked).

    Memory settings that depend on it take effect when the server starts again. Neither is kept from being deleted:
    setProtection does that.
    """
    changed = services.set_environment(*at, data.environment)
    return answer(Success(f"Service {changed.id} is a {changed.environment} service now."))


@accept(
    "/{service_id:str}/setHA", operation_id="setHAReplica", summary="Set the high-availability replicas of a service"
)
def set_ha(at: ServicePath, data: JSONBody[SetHAReplicaInput]) -> Response[Service]:
    """Set how many standbys take over when the primary fails, and how many of them confirm each commit.

    The service serves while they are made. A backend of one host accepts zero replicas, and refuses more.
    """
    return answer(service_shape(set_standbys(*at, data.replica_count, data.sync_replica_count)), 202)


def create_request(data: ServiceCreate | ServiceFollow | ServiceImport, **more: Any) -> CreateRequest:
    """Return the request for a new service that a body makes."""
    return CreateRequest(
        name=data.name,
        cpu_millis=data.cpu_millis,
        memory_gbs=data.memory_gbs,
        environment=data.environment_tag or Environment.DEV,
        pg_major=data.pg_major,
        **kept_fields(data),
        **more,
    )


def source_fields(data: ServiceFollow | ServiceImport) -> dict[str, Any]:
    """Return the fields of a request that name a source."""
    password = Secret(data.source_password)
    return {"url": data.source_url, "password": password, "root_certificate": data.root_certificate}


def kept_fields(data: KeptBody) -> dict[str, Any]:
    """Return the fields of a request to the control plane that say how long a new service is kept; null is absent."""
    ttl, at, idle = data.ttl_seconds, data.expires_at, data.idle_ttl_seconds
    life = LifeTerms(UNSET if ttl is None else ttl, UNSET if at is None else at, UNSET if idle is None else idle)
    return {
        "labels": data.labels or {},
        "protected": data.protected is True,
        "life": life,
        "sleep_after_seconds": data.sleep_after_seconds,
    }


def accepted_service(accepted: Accepted) -> Response[Any]:
    """Return the response to a create or a fork, the only ones with the password."""
    return answer(service_shape(accepted.service, accepted.initial_password), 202)


def _service_type(data: JSONBody[ServiceCreate]) -> ServiceType:
    """Return the type that addons request; time series include vectors, so both together are TIMESERIESDB."""
    addons = data.addons
    if Addon.TIME_SERIES in (addons or []):
        meant = ServiceType.TIMESERIESDB
    else:
        meant = ServiceType.VECTOR if addons else ServiceType.POSTGRES
    named = named_type(data.service_type, meant)
    if addons is not None and named is not meant:
        raise Invalid(
            "CONTRADICTION",
            f"service_type {named} and addons {[addon.value for addon in addons]} (a {meant}) contradict each other",
            "Send one of the two.",
        )
    return named


def named_type(wanted: ServiceTypeWanted | None, default: ServiceType = ServiceType.POSTGRES) -> ServiceType:
    """Return the type that a request names; TIMESCALEDB is another name of TIMESERIESDB."""
    if wanted is None:
        return default
    if wanted is ServiceTypeWanted.TIMESCALEDB:
        return ServiceType.TIMESERIESDB
    return ServiceType(wanted.value)


services_router = router_of(__name__, "Services", f"{OF_PROJECT}/services")
