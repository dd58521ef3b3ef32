"""The verbs over the off-host archive of a service."""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from ramet.control.lookup import find_service, read_service
from ramet.control.plane import Plane
from ramet.errors import Invalid
from ramet.model.archive import SETTING, archive_warning, is_archived, lag_seconds
from ramet.model.service import Service
from ramet.procedures.servers import server_of
from ramet.store import services


@dataclass(frozen=True)
class ArchiveView:
    """The off-host archive of a service: where it is, and how far. `lag_seconds` is what the loss of the host takes.

    `server_name` is the name of the service there, `last_proven_restore` the newest time that a restore drill has
    recovered from it.
    """

    enabled: bool
    url: str | None
    server_name: str
    archived_until: datetime | None
    lag_seconds: float | None
    base_backup_time: datetime | None
    last_proven_restore: datetime | None
    problem: str | None


def get_archive(plane: Plane, project_id: str, service_id: str) -> ArchiveView:
    """Return how far the off-host archive of a service is."""
    return _view(plane, read_service(plane, project_id, service_id))


def set_archive(plane: Plane, project_id: str, service_id: str, enabled: bool | None) -> ArchiveView:
    """Archive a service off the host, or stop that; None goes back to the default of its environment.

    What the archive has stays there, and can be forked, until it expires. Raises Invalid when no archive is configured.
    """
    if enabled and plane.backend.archive.url() is None:
        raise Invalid(
            "NO_ARCHIVE",
            "enabled cannot be true: this installation has no off-host archive",
            "Set RAMET_ARCHIVE_URL, for example to s3://bucket/prefix, and restart Ramet.",
        )
    with plane.store.write() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        settings = {name: value for name, value in service.settings.items() if name != SETTING}
        if enabled is not None:
            settings[SETTING] = enabled
        services.update_service(tx, service.id, settings=settings)
        if not is_archived(replace(service, settings=settings)):
            services.update_service(tx, service.id, archive_problem=None, archive_drill_failure=None)
        return _view(plane, find_service(plane, tx, project_id, service_id))


def _view(plane: Plane, service: Service) -> ArchiveView:
    url = plane.backend.archive.url()
    enabled = url is not None and is_archived(service)
    return ArchiveView(
        enabled=enabled,
        url=url,
        server_name=server_of(service).archive_name,
        archived_until=service.archived_until,
        lag_seconds=lag_seconds(service, plane.clock()) if enabled else None,
        base_backup_time=service.archive_base_at,
        last_proven_restore=service.archive_verified_at,
        problem=archive_warning(service),
    )
