"""The snapshots of a service, and the deletion of one."""

from litestar import Response, post
from litestar.params import FromPath, FromQuery

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, ChangeForm
from ramet.console.rendering import page
from ramet.console.views.forms import Form
from ramet.console.views.restore_window import restore_view
from ramet.control import restore, services
from ramet.errors import NotFound
from ramet.model.service import Service
from ramet.model.snapshot import Snapshot, SnapshotKind

_SHOWN = 300
_DELETED = "The snapshot is being deleted."


@read("/services/{service_id:str}/snapshots", operation="getSnapshots", sync_to_thread=True)
def snapshots_page(session: SignedIn, service_id: ServiceId, done: FromQuery[str] = "") -> Response[str]:
    """Show the newest snapshots; `done` names a change that was just accepted."""
    service = services.get_service(session.plane, session.project_id, service_id)
    past = restore_view(session.plane, service)
    message = _DELETED if done == "delete" else ""
    newest = past.snapshots[:_SHOWN]
    return page("snapshots.html", session, service=service, past=past, shown_snapshots=newest, done=message)


@read("/services/{service_id:str}/snapshots/{snapshot_id:str}/delete", operation="deleteSnapshot", sync_to_thread=True)
def delete_snapshot_page(session: SignedIn, service_id: ServiceId, snapshot_id: FromPath[str]) -> Response[str]:
    """Ask for confirmation; a snapshot that the restore window needs cannot be deleted, and the page says why."""
    return _form(session, service_id, snapshot_id).show(session, Form({}))


@post(
    "/services/{service_id:str}/snapshots/{snapshot_id:str}/delete",
    operation="deleteSnapshot",
    sync_to_thread=True,
    status_code=200,
)
def delete_snapshot(
    session: SignedIn, service_id: ServiceId, snapshot_id: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Delete a snapshot."""
    return _form(session, service_id, snapshot_id).submit(session, fields)


def _form(session: CurrentSession, service_id: str, snapshot_id: str) -> ChangeForm[Service]:
    """Return the form that deletes a snapshot. The name to type is that of the service."""
    service = services.get_service(session.plane, session.project_id, service_id)
    snapshot = _find(session, service, snapshot_id)
    change: Change[Service] = Change(
        "deleteSnapshot",
        "Delete a snapshot of",
        "Delete snapshot",
        "You can then restore its state only as long as the restore window reaches back to it. Forks of it are kept.",
        restore.delete_snapshot,
        lambda _: (snapshot.id,),
        disruptive=True,
        fields=("snapshot",),
        done=_DELETED,
    )
    base = f"/console/services/{service.id}"
    above = [("/console/", "Services"), (base, service.name), (f"{base}/snapshots", "Snapshots")]
    refusal = None if snapshot.kind is SnapshotKind.MANUAL else restore.snapshot_in_use_error(snapshot)
    return ChangeForm(
        change, service, above, f"{base}/snapshots/{snapshot.id}/delete", {"snapshot": snapshot, "refusal": refusal}
    )


def _find(session: CurrentSession, service: Service, snapshot_id: str) -> Snapshot:
    for one in restore.list_snapshots(session.plane, service.project_id, service.id):
        if one.id == snapshot_id and isinstance(one, Snapshot):
            return one
    message = f"{service.name} has no snapshot with id {snapshot_id[:64]!r}"
    raise NotFound("SNAPSHOT_NOT_FOUND", message, "It may have been deleted.")
