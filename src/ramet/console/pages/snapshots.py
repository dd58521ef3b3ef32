"""The snapshots of a service: all of them on a page, and the deletion of one, or why it cannot be deleted."""

from dataclasses import dataclass

from litestar import Response, post
from litestar.params import FromPath, FromQuery

from ramet.console.context import Context, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, Place, Values, ask, perform
from ramet.console.rendering import page
from ramet.console.views.forms import Form
from ramet.console.views.restore_window import restore_view
from ramet.control import restore, services
from ramet.control.plane import Plane
from ramet.errors import NotFound
from ramet.model.service import Environment, Service
from ramet.model.snapshot import Snapshot, SnapshotKind

_SHOWN = 300


@dataclass(frozen=True)
class _Kept:
    """A snapshot as something to protect: by the name and the environment of its service."""

    service: Service
    snapshot: Snapshot

    @property
    def name(self) -> str:
        """What is to be typed."""
        return self.service.name

    @property
    def environment(self) -> Environment:
        """How much is at stake."""
        return self.service.environment


def _delete(plane: Plane, kept: _Kept, _: Values) -> None:
    restore.delete_snapshot(plane, kept.service.project_id, kept.service.id, kept.snapshot.id)


_DELETE: Change[_Kept] = Change(
    "Delete a snapshot of",
    "Delete it",
    "The state that it keeps can then be had only as long as the restore window reaches back to it. Forks of it stay.",
    _delete,
    hurts=True,
    fields=("snapshot",),
    done="The snapshot is being deleted.",
)


@read("/services/{service_id:str}/snapshots", sync_to_thread=True)
def snapshots_page(
    context: Context, session: SignedIn, service_id: ServiceId, done: FromQuery[str] = ""
) -> Response[str]:
    """Show the newest snapshots."""
    service = services.get_service(context.plane, session.project_id, service_id)
    past = restore_view(context.plane, service)
    told = _DELETE.done if done == "delete" else ""
    newest = past.snapshots[:_SHOWN]
    return page("snapshots.html", context, session, service=service, past=past, shown_snapshots=newest, done=told)


@read("/services/{service_id:str}/snapshots/{snapshot_id:str}/delete", sync_to_thread=True)
def snapshot_page(
    context: Context, session: SignedIn, service_id: ServiceId, snapshot_id: FromPath[str]
) -> Response[str]:
    """Ask whether a snapshot shall go; of one that the restore window needs, tell why it stays."""
    kept = _found(context.plane, session.project_id, service_id, snapshot_id)
    refusal = None if kept.snapshot.kind is SnapshotKind.MANUAL else restore.snapshot_in_use_error(kept.snapshot)
    return ask(context, session, _DELETE, kept, _place(kept), Form({}), snapshot=kept.snapshot, refusal=refusal)


@post("/services/{service_id:str}/snapshots/{snapshot_id:str}/delete", sync_to_thread=True, status_code=200)
def delete_snapshot(
    context: Context, session: SignedIn, service_id: ServiceId, snapshot_id: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Delete a snapshot, and go back to the service."""
    kept = _found(context.plane, session.project_id, service_id, snapshot_id)
    return perform(context, session, _DELETE, kept, _place(kept), fields, snapshot=kept.snapshot)


def _found(plane: Plane, project_id: str, service_id: str, snapshot_id: str) -> _Kept:
    service = services.get_service(plane, project_id, service_id)
    for one in restore.list_snapshots(plane, project_id, service.id):
        if one.id == snapshot_id and isinstance(one, Snapshot):
            return _Kept(service, one)
    raise NotFound("SNAPSHOT_NOT_FOUND", f"{service.name} has no such snapshot", "It may be deleted.")


def _place(kept: _Kept) -> Place:
    base = f"/console/services/{kept.service.id}"
    above = [("/console/", "Services"), (base, kept.service.name), (f"{base}/snapshots", "Snapshots")]
    return Place(above, f"{base}/snapshots/{kept.snapshot.id}/delete")
