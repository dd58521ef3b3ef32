"""Changes to a service over HTTP: name, environment, size, password, replicas."""

from litestar import Response, Router, post
from litestar.params import JSONBody
from msgspec import UNSET

from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.responses import PlaneDependency, answer, empty
from ramet.api.schemas.services import (
    ExtensionsInput,
    ExtensionUpdate,
    ResizeInput,
    Service,
    ServiceRename,
    SetEnvironmentInput,
    SetHAReplicaInput,
    UpdatePasswordInput,
)
from ramet.api.schemas.shared import Success
from ramet.api.shapes import service_shape
from ramet.control import services
from ramet.model.credentials import Secret


@post(
    "/rename",
    operation_id="renameService",
    summary="Rename a service",
    status_code=200,
    sync_to_thread=True,
)
def rename_service(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ServiceRename]
) -> Response[Service]:
    """Give the service another name. Its endpoint, its forks and who is connected do not notice."""
    return answer(service_shape(services.rename_service(plane, project_id, service_id, data.name)))


@post(
    "/resize",
    operation_id="resizeService",
    summary="Resize a service",
    status_code=202,
    sync_to_thread=True,
)
def resize_service(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ResizeInput]
) -> Response[Service]:
    """Accept another size. It is in force without a break where PostgreSQL can do that, else after a short restart."""
    return answer(
        service_shape(services.resize_service(plane, project_id, service_id, data.cpu_millis, data.memory_gbs)), 202
    )


@post(
    "/optimize",
    operation_id="optimizeService",
    summary="Optimize a service",
    status_code=202,
    sync_to_thread=True,
)
def optimize_service(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[Service]:
    """Accept the collection of fresh statistics for the planner. The service is OPTIMIZING, and serves meanwhile."""
    return answer(service_shape(services.optimize_service(plane, project_id, service_id)), 202)


@post(
    "/updateExtensions",
    operation_id="updateExtensions",
    summary="Update the extensions of a service",
    status_code=200,
    sync_to_thread=True,
)
def update_extensions(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ExtensionsInput]
) -> Response[list[ExtensionUpdate]]:
    """Update extensions, in all databases, to the versions that are installed on the host, as the platform.

    The answer names each one that was not at that version; one with a problem stays as it was.
    """
    name = None if data.extension is UNSET else data.extension
    made = services.update_extensions(plane, project_id, service_id, name)
    return answer(
        [
            ExtensionUpdate(
                database=each.database,
                extension=each.extension,
                from_version=each.from_version,
                to_version=each.to_version,
                problem=each.problem or UNSET,
            )
            for each in made
        ]
    )


@post(
    "/updatePassword",
    operation_id="updatePassword",
    summary="Change the admin's password",
    status_code=204,
    sync_to_thread=True,
)
def update_password(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    data: JSONBody[UpdatePasswordInput],
) -> Response[None]:
    """Change the password of tsdbadmin. Sessions go on; from the answer on only the new one opens new ones."""
    services.update_password(plane, project_id, service_id, Secret(data.password))
    return empty(204)


@post(
    "/setEnvironment",
    operation_id="setEnvironment",
    summary="Set the environment of a service",
    status_code=200,
    sync_to_thread=True,
)
def set_environment(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    data: JSONBody[SetEnvironmentInput],
) -> Response[Success]:
    """Say how much is at stake. Memory settings that depend on it follow at the next start of the server."""
    changed = services.set_environment(plane, project_id, service_id, data.environment)
    return answer(Success(f"Service {changed.id} is a {changed.environment} service now."))


@post(
    "/setHA",
    operation_id="setHAReplica",
    summary="Set the high-availability replicas of a service",
    status_code=202,
    sync_to_thread=True,
)
def set_ha(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[SetHAReplicaInput]
) -> Response[Service]:
    """Accept zero, which is what every service on one host has, and refuse more."""
    given = {"sync_replica_count": data.sync_replica_count, "replica_count": data.replica_count}
    counts = {name: count for name, count in given.items() if count is not UNSET}
    return answer(service_shape(services.set_ha(plane, project_id, service_id, counts)), 202)


changes_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}",
    route_handlers=[
        rename_service,
        resize_service,
        optimize_service,
        update_extensions,
        update_password,
        set_environment,
        set_ha,
    ],
    tags=["Services"],
)
