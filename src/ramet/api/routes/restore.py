"""A service's past over HTTP: restore window and its settings, snapshots, fork report."""

from litestar import Response, Router, delete, get, post, put
from litestar.params import JSONBody
from msgspec import UNSET

from ramet.api.parameters import ProjectId, ServiceId, SnapshotId
from ramet.api.responses import PlaneDependency, answer, empty
from ramet.api.restore_shapes import snapshot_shape, window_shape
from ramet.api.routes.forks import get_fork_report
from ramet.api.schemas.restore import RestoreSettings, RestoreWindow, Snapshot, SnapshotCreate
from ramet.control import restore


@get(
    "/restoreWindow",
    operation_id="getRestoreWindow",
    summary="Get the restore window",
    sync_to_thread=True,
)
def get_restore_window(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[RestoreWindow]:
    """The moments that a PITR fork of this service can have, the snapshots in between, the gaps and their reasons."""
    return answer(window_shape(restore.get_restore_window(plane, project_id, service_id)))


@put(
    "/restoreSettings",
    operation_id="updateRestoreSettings",
    summary="Change the restore settings",
    sync_to_thread=True,
)
def update_restore_settings(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[RestoreSettings]
) -> Response[RestoreWindow]:
    """Set how far back this service can be restored, and when a snapshot is due: after so long, or so much WAL."""
    names = ("window_days", "snapshot_interval_seconds", "snapshot_wal_bytes")
    changes = {name: value for name in names if (value := getattr(data, name)) is not UNSET}
    return answer(window_shape(restore.change_restore_settings(plane, project_id, service_id, changes)))


@get(
    "/snapshots",
    operation_id="getSnapshots",
    summary="List snapshots",
    sync_to_thread=False,
)
def list_snapshots(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> Response[list[Snapshot]]:
    """Every snapshot of the service, oldest first, and after them those that are being made by hand."""
    return answer([snapshot_shape(one) for one in restore.list_snapshots(plane, project_id, service_id)])


@post(
    "/snapshots",
    operation_id="createSnapshot",
    summary="Take a snapshot",
    status_code=202,
    sync_to_thread=True,
)
def create_snapshot(
    plane: PlaneDependency,
    project_id: ProjectId,
    service_id: ServiceId,
    data: JSONBody[SnapshotCreate | None] = None,
) -> Response[Snapshot]:
    """Accept a manual snapshot. It is AVAILABLE a moment later, and stays until it is deleted."""
    name = None if data is None or data.name is UNSET else data.name
    return answer(snapshot_shape(restore.take_snapshot(plane, project_id, service_id, name)), 202)


@delete(
    "/snapshots/{snapshot_id:str}",
    operation_id="deleteSnapshot",
    summary="Delete a manual snapshot",
    status_code=202,
    sync_to_thread=True,
)
def delete_snapshot(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, snapshot_id: SnapshotId
) -> Response[None]:
    """Accept the deletion of a manual snapshot. Forks of it live on."""
    restore.delete_snapshot(plane, project_id, service_id, snapshot_id)
    return empty(202)


restore_router = Router(
    "/projects/{project_id:str}/services/{service_id:str}",
    route_handlers=[
        get_restore_window,
        update_restore_settings,
        list_snapshots,
        create_snapshot,
        delete_snapshot,
        get_fork_report,
    ],
    tags=["Restore"],
)
