"""The off-host archive of a service over HTTP."""

import msgspec
from litestar import Response
from litestar.params import JSONBody
from msgspec import UNSET

from ramet.api.parameters import ProjectId
from ramet.api.responses import OF_PROJECT, PlaneDependency, ServicePath, answer, read, router_of, update
from ramet.api.schemas.archive import Archive, ArchiveSettings, DeletedService
from ramet.control import archive, archived_forks
from ramet.control.archive import ArchiveView

_OF_SERVICE = "/services/{service_id:str}/archive"


@read(_OF_SERVICE, operation_id="getArchive", summary="Get the off-host archive of a service")
def get_archive(at: ServicePath) -> Response[Archive]:
    """Where the service is archived off the host, how far the archive is, and what keeps it from catching up."""
    return answer(_shape(archive.get_archive(*at)))


@update(_OF_SERVICE, operation_id="updateArchive", summary="Archive a service off the host, or stop that")
def update_archive(at: ServicePath, data: JSONBody[ArchiveSettings]) -> Response[Archive]:
    """Change whether the service is archived. What the archive has stays there until it expires."""
    enabled = None if data.enabled is UNSET else data.enabled
    return answer(_shape(archive.set_archive(*at, enabled)))


@read("/deletedServices", operation_id="getDeletedServices", summary="List deleted services that can be forked")
def list_deleted_services(plane: PlaneDependency, project_id: ProjectId) -> Response[list[DeletedService]]:
    """The deleted services that the off-host archive still has: fork them with from_deleted."""
    return answer([_deleted_shape(each) for each in archived_forks.list_deleted(plane, project_id)])


def _deleted_shape(deleted: archived_forks.DeletedService) -> DeletedService:
    service = deleted.service
    if service.deleted_at is None:
        raise AssertionError("BUG: a deleted service has a time of its deletion")
    return DeletedService(
        service_id=service.id,
        name=service.name,
        environment_tag=service.environment,
        created=service.created_at,
        deleted=service.deleted_at,
        earliest=deleted.held.earliest,
        latest=deleted.held.latest,
    )


def _shape(view: ArchiveView) -> Archive:
    return msgspec.convert(view, Archive, from_attributes=True)


archive_router = router_of(__name__, "Archive", OF_PROJECT)
