"""Changing a service: one page a verb, which says what it does and asks for confirmation where it can hurt."""

from collections.abc import Mapping
from typing import Any

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import ConsoleContext, Context, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, Place, Values, ask, find_change, perform
from ramet.console.views.forms import Form, InvalidField, environment_of, size_value, split_size
from ramet.console.views.restore_settings import AMOUNTS, default_settings, set_restore, typed_settings
from ramet.control import poolers, replica_sets, restore, services
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.credentials import Secret
from ramet.model.service import Environment, Service, status_of
from ramet.model.status import Status


def _pause(plane: Plane, service: Service, _: Values) -> None:
    services.stop_service(plane, service.project_id, service.id)


def _resume(plane: Plane, service: Service, _: Values) -> None:
    services.start_service(plane, service.project_id, service.id)


def _delete(plane: Plane, service: Service, _: Values) -> None:
    services.delete_service(plane, service.project_id, service.id)


def _rename(plane: Plane, service: Service, values: Values) -> None:
    services.rename_service(plane, service.project_id, service.id, values.get("name", ""))


def _set_environment(plane: Plane, service: Service, values: Values) -> None:
    services.set_environment(plane, service.project_id, service.id, environment_of(values))


def _resize(plane: Plane, service: Service, values: Values) -> None:
    cpu, memory = split_size(values.get("size", ""))
    services.resize_service(plane, service.project_id, service.id, cpu, memory)


def _set_password(plane: Plane, service: Service, values: Values) -> None:
    services.update_password(plane, service.project_id, service.id, Secret(values.get("password", "")))


def _take_snapshot(plane: Plane, service: Service, values: Values) -> None:
    restore.take_snapshot(plane, service.project_id, service.id, values.get("name") or None)


def _add_pooler(plane: Plane, service: Service, _: Values) -> None:
    poolers.enable_pooler(plane, service.project_id, service.id)


def _remove_pooler(plane: Plane, service: Service, _: Values) -> None:
    poolers.disable_pooler(plane, service.project_id, service.id)


def _optimize(plane: Plane, service: Service, _: Values) -> None:
    services.optimize_service(plane, service.project_id, service.id)


def _add_replicas(plane: Plane, service: Service, values: Values) -> None:
    nodes = values.get("nodes", "")
    if not (nodes.isascii() and nodes.isdigit() and len(nodes) < 4):
        raise InvalidField("nodes", "This must be a whole number")
    cpu, memory = split_size(values.get("size", ""))
    request = replica_sets.ReplicaSetRequest(values.get("name", ""), int(nodes), cpu or "", memory or "")
    replica_sets.create_set(plane, service.project_id, service.id, request)


CHANGES: Mapping[str, Change[Service]] = {
    "pause": Change(
        "Pause", "Pause it", "Its server stops cleanly and clients are turned away. The data stays.", _pause, hurts=True
    ),
    "resume": Change("Resume", "Resume it", "Its server starts again at the same endpoint.", _resume),
    "rename": Change("Rename", "Rename it", "Only the name changes; id and endpoint stay.", _rename, fields=("name",)),
    "resize": Change(
        "Resize",
        "Resize it",
        "CPU and memory change. The server restarts once where PostgreSQL cannot do it live. A paused service resumes.",
        _resize,
        hurts=True,
        fields=("size",),
    ),
    "environment": Change(
        "Set the environment of",
        "Set it",
        "PROD services are protected: what can hurt them needs their name typed.",
        _set_environment,
        hurts=True,
        fields=("environment",),
    ),
    "password": Change(
        "Reset the password of",
        "Reset it",
        "From then on only the new password of tsdbadmin opens it; open sessions go on.",
        _set_password,
        hurts=True,
        fields=("password",),
        done="The password is changed: only the new one opens it.",
    ),
    "snapshot": Change(
        "Take a snapshot of",
        "Take it",
        "A state to fork from later. It stays until it is deleted; a name helps to find it.",
        _take_snapshot,
        fields=("snapshot_name",),
    ),
    "pool": Change(
        "Add a pooler to", "Add it", "An endpoint of its own that lets many clients share few sessions.", _add_pooler
    ),
    "unpool": Change(
        "Remove the pooler of",
        "Remove it",
        "Clients of its endpoint are cut off; the service itself goes on.",
        _remove_pooler,
        hurts=True,
    ),
    "optimize": Change(
        "Optimize",
        "Optimize it",
        "Fresh statistics are collected for the planner. It serves meanwhile; busy tables are read once.",
        _optimize,
    ),
    "window": Change(
        "Set the restore window of",
        "Set it",
        "How far back it can be restored, and when a snapshot is due. A shorter window lets older snapshots go for"
        " good; denser snapshots make forks of a moment READY sooner.",
        set_restore,
        hurts=True,
        fields=("window",),
        done="The restore window is set.",
    ),
    "add-replicas": Change(
        "Add read replicas to",
        "Add them",
        "A set of equal, read-only copies that follow the service, behind one endpoint. The password is the same.",
        _add_replicas,
        fields=("name", "nodes", "size"),
    ),
    "delete": Change(
        "Delete",
        "Delete it for good",
        "Its data, snapshots, archive and read replicas are removed. Its forks stay. There is no way back.",
        _delete,
        hurts=True,
        final=True,
    ),
}


_HELD_ALREADY: Mapping[tuple[str, Status], tuple[str, str]] = {
    ("pause", Status.PAUSED): ("is paused already", "resume"),
    ("resume", Status.READY): ("is not paused", "pause"),
}
"""What is said where a change would change nothing, and the change that would undo it."""


@read("/services/{service_id:str}/{verb:str}", sync_to_thread=True)
def change_page(context: Context, session: SignedIn, service_id: ServiceId, verb: FromPath[str]) -> Response[str]:
    """Ask what the change needs to know."""
    service = services.get_service(context.plane, session.project_id, service_id)
    chosen = find_change(CHANGES, verb)
    form = Form(_initial(service, verb))
    return ask(context, session, chosen, service, _place(service, verb), form, **_offered(context, service, verb))


@post("/services/{service_id:str}/{verb:str}", sync_to_thread=True, status_code=200)
def change(
    context: Context, session: SignedIn, service_id: ServiceId, verb: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Make the change, and go back to the service."""
    service = services.get_service(context.plane, session.project_id, service_id)
    chosen = find_change(CHANGES, verb)
    return perform(context, session, chosen, service, _place(service, verb), fields, **_offered(context, service, verb))


def _place(service: Service, verb: str) -> Place:
    base = f"/console/services/{service.id}"
    return Place([("/console/", "Services"), (base, service.name)], f"{base}/{verb}")


def _initial(service: Service, verb: str) -> Values:
    """Return what a form begins with: what holds now, or for the environment, the other one."""
    if verb == "window":
        return typed_settings(service)
    names = {"rename": service.name, "add-replicas": "replicas"}
    return {
        "name": names.get(verb, ""),
        "nodes": "1",
        "size": size_value(service.size),
        "environment": Environment.DEV if service.environment is Environment.PROD else Environment.PROD,
    }


def _offered(context: ConsoleContext, service: Service, verb: str) -> Mapping[str, Any]:
    """Return what a form offers beyond its values."""
    if verb == "window":
        return {"amounts": AMOUNTS, "defaults": default_settings(context.plane)}
    if (verb, status_of(service)) in _HELD_ALREADY:
        told, instead = _HELD_ALREADY[verb, status_of(service)]
        refusal = WrongState("INVALID_STATE", f"{service.name} {told}")
        return {"refusal": refusal, "instead": (_place(service, instead).path, CHANGES[instead].title)}
    return {"own_size": verb == "add-replicas", "present_size": service.size if verb == "resize" else None}
