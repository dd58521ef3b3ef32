"""The page of one read replica set, and the changes of it."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, ChangeForm, find_change, verbs_of
from ramet.console.rendering import page
from ramet.console.views.forms import Form, environment_of, size_value, sizes, split_size
from ramet.control import replica_sets, services
from ramet.errors import NotFound
from ramet.model.environment import Environment
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service

CHANGES: Mapping[str, Change[ReplicaSet]] = {
    "resize": Change(
        "resizeReplicaSet",
        "Resize",
        "Resize",
        "Every node gets the new size and restarts once. The service itself is not interrupted.",
        replica_sets.resize_set,
        lambda values: tuple(part or "" for part in split_size(values.get("size", ""))),
        disruptive=True,
        fields=("size",),
    ),
    "environment": Change(
        "setReplicaEnvironment",
        "Set the environment of",
        "Set environment",
        "You must type the name of a PROD set before a change that interrupts its clients.",
        replica_sets.set_environment,
        lambda values: (environment_of(values),),
        disruptive=True,
        fields=("environment",),
    ),
    "pool": Change(
        "enableReplicaPooler",
        "Add a pooler to",
        "Add pooler",
        "A connection pooler with its own endpoint lets many clients share a few server connections.",
        replica_sets.enable_pooler,
    ),
    "unpool": Change(
        "disableReplicaPooler",
        "Remove the pooler of",
        "Remove pooler",
        "Clients of the pooler's endpoint are disconnected. The read replicas keep running.",
        replica_sets.disable_pooler,
        disruptive=True,
    ),
    "delete": Change(
        "deleteReplicaSet",
        "Delete",
        "Delete permanently",
        "Deletes the endpoint and all nodes of the set, and disconnects their clients. The service and its data are"
        " not affected.",
        replica_sets.delete_set,
        disruptive=True,
        final=True,
    ),
}


@read("/services/{service_id:str}/replicas/{set_id:str}", operation="getReplicaSets", sync_to_thread=True)
def replica_set_page(session: SignedIn, service_id: ServiceId, set_id: FromPath[str]) -> Response[str]:
    """Show a read replica set."""
    service, found = _find(session, service_id, set_id)
    tls = session.plane.backend.host.has_tls(service.pg_major)
    return page("replica_set.html", session, service=service, set=found, tls=tls)


@read("/services/{service_id:str}/replicas/{set_id:str}/{change:str}", operation="getReplicaSets", sync_to_thread=True)
def replica_set_change_page(
    session: SignedIn, service_id: ServiceId, set_id: FromPath[str], change: FromPath[str]
) -> Response[str]:
    """Show the form of a change of a set."""
    form = _form(session, service_id, set_id, change)
    other = Environment.DEV if form.target.environment is Environment.PROD else Environment.PROD
    return form.show(session, Form({"size": size_value(form.target.size), "environment": other}))


@post(
    "/services/{service_id:str}/replicas/{set_id:str}/{change:str}",
    operation="getReplicaSets",
    verbs=verbs_of(CHANGES),
    sync_to_thread=True,
    status_code=200,
)
def submit_replica_set_change(
    session: SignedIn, service_id: ServiceId, set_id: FromPath[str], change: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Make a change of a set."""
    return _form(session, service_id, set_id, change).submit(session, fields)


def _find(session: CurrentSession, service_id: str, set_id: str) -> tuple[Service, ReplicaSet]:
    service = services.get_service(session.plane, session.project_id, service_id)
    found = next((one for one in service.replica_sets if one.id == set_id), None)
    if found is None:
        message = f"{service.name} has no read replica set with id {set_id[:64]!r}"
        raise NotFound("REPLICA_SET_NOT_FOUND", message, "It may have been deleted.")
    return service, found


def _form(session: CurrentSession, service_id: str, set_id: str, name: str) -> ChangeForm[ReplicaSet]:
    change = find_change(session, CHANGES, name)
    service, found = _find(session, service_id, set_id)
    parent = f"/console/services/{service.id}"
    base = f"{parent}/replicas/{found.id}"
    above = [("/console/", "Services"), (parent, service.name), (base, found.name)]
    offered = {"sizes": sizes(session.plane, own=True, present=found.size)}
    return ChangeForm(change, found, above, f"{base}/{name}", offered)
