"""The page of one read replica set, and the changes to it: resize, environment, pooler, delete."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import AnyRequest, Context, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, Place, Values, ask, find_change, perform
from ramet.console.rendering import page
from ramet.console.views.forms import Form, environment_of, size_value, split_size
from ramet.control import replica_sets, services
from ramet.control.plane import Plane
from ramet.errors import NotFound
from ramet.model.replica import ReplicaSet
from ramet.model.service import Environment, Service


def _resize(plane: Plane, found: ReplicaSet, values: Values) -> None:
    cpu, memory = split_size(values.get("size", ""))
    replica_sets.resize_set(plane, found.project_id, found.service_id, found.id, cpu or "", memory or "")


def _set_environment(plane: Plane, found: ReplicaSet, values: Values) -> None:
    replica_sets.set_environment(plane, found.project_id, found.service_id, found.id, environment_of(values))


def _add_pooler(plane: Plane, found: ReplicaSet, _: Values) -> None:
    replica_sets.enable_pooler(plane, found.project_id, found.service_id, found.id)


def _remove_pooler(plane: Plane, found: ReplicaSet, _: Values) -> None:
    replica_sets.disable_pooler(plane, found.project_id, found.service_id, found.id)


def _delete(plane: Plane, found: ReplicaSet, _: Values) -> None:
    replica_sets.delete_set(plane, found.project_id, found.service_id, found.id)


CHANGES: Mapping[str, Change[ReplicaSet]] = {
    "resize": Change(
        "Resize",
        "Resize it",
        "Every node gets this size, and restarts once for it. The service itself goes on.",
        _resize,
        hurts=True,
        fields=("size",),
    ),
    "environment": Change(
        "Set the environment of",
        "Set it",
        "PROD sets are protected: what can hurt them needs their name typed.",
        _set_environment,
        hurts=True,
        fields=("environment",),
    ),
    "pool": Change(
        "Add a pooler to", "Add it", "An endpoint of its own that lets many clients share few sessions.", _add_pooler
    ),
    "unpool": Change(
        "Remove the pooler of",
        "Remove it",
        "Clients of its endpoint are cut off; the replicas go on.",
        _remove_pooler,
        hurts=True,
    ),
    "delete": Change(
        "Delete",
        "Delete it for good",
        "Its endpoint goes, and its clients are cut off. The service and its data are not touched.",
        _delete,
        hurts=True,
        final=True,
    ),
}


@read("/services/{service_id:str}/replicas/{set_id:str}", sync_to_thread=True)
def replica_page(
    request: AnyRequest, context: Context, session: SignedIn, service_id: ServiceId, set_id: FromPath[str]
) -> Response[str]:
    """Show a set of read replicas."""
    service = services.get_service(context.plane, session.project_id, service_id)
    tls = context.plane.backend.host.has_tls(service.pg_major)
    return page("replica_set.html", context, session, service=service, set=_found(service, set_id), tls=tls)


@read("/services/{service_id:str}/replicas/{set_id:str}/{verb:str}", sync_to_thread=True)
def replica_change_page(
    context: Context, session: SignedIn, service_id: ServiceId, set_id: FromPath[str], verb: FromPath[str]
) -> Response[str]:
    """Ask what a change to a set needs to know."""
    service = services.get_service(context.plane, session.project_id, service_id)
    found = _found(service, set_id)
    other = Environment.DEV if found.environment is Environment.PROD else Environment.PROD
    form = Form({"size": size_value(found.size), "environment": other})
    place = _place(service, found, verb)
    return ask(context, session, find_change(CHANGES, verb), found, place, form, own_size=True, present_size=found.size)


@post("/services/{service_id:str}/replicas/{set_id:str}/{verb:str}", sync_to_thread=True, status_code=200)
def replica_change(
    context: Context,
    session: SignedIn,
    service_id: ServiceId,
    set_id: FromPath[str],
    verb: FromPath[str],
    fields: Fields,
) -> Response[str] | Response[None]:
    """Make the change, and go back to the set, or to its service when it goes."""
    service = services.get_service(context.plane, session.project_id, service_id)
    found = _found(service, set_id)
    place = _place(service, found, verb)
    chosen = find_change(CHANGES, verb)
    return perform(context, session, chosen, found, place, fields, own_size=True, present_size=found.size)


def _found(service: Service, set_id: str) -> ReplicaSet:
    found = next((one for one in service.replica_sets if one.id == set_id), None)
    if found is None:
        raise NotFound("REPLICA_SET_NOT_FOUND", f"{service.name} has no such read replicas", "They may be deleted.")
    return found


def _place(service: Service, found: ReplicaSet, verb: str) -> Place:
    above = f"/console/services/{service.id}"
    base = f"{above}/replicas/{found.id}"
    return Place([("/console/", "Services"), (above, service.name), (base, found.name)], f"{base}/{verb}")
