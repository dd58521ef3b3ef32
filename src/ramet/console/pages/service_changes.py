"""Changes of a service, each with a form that says what it does."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import Change, ChangeForm, Values, find_change
from ramet.console.views.forms import (
    Form,
    InvalidField,
    environment_of,
    size_value,
    sizes,
    split_size,
    wal_level_of_form,
)
from ramet.console.views.restore_settings import AMOUNTS, default_settings, set_restore, typed_settings
from ramet.control import archive, poolers, replica_sets, replication, restore, services
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel, wal_level_of


def _plain(verb: Callable[[Plane, str, str], object]) -> Callable[[Plane, Service, Values], object]:
    """Return a verb that needs nothing but the service as what a form performs."""
    return lambda plane, service, _: verb(plane, service.project_id, service.id)


def _rename(plane: Plane, service: Service, values: Values) -> None:
    services.rename_service(plane, service.project_id, service.id, values.get("name", ""))


def _set_environment(plane: Plane, service: Service, values: Values) -> None:
    services.set_environment(plane, service.project_id, service.id, environment_of(values))


def _resize(plane: Plane, service: Service, values: Values) -> None:
    services.resize_service(plane, service.project_id, service.id, *split_size(values.get("size", "")))


def _set_wal_level(plane: Plane, service: Service, values: Values) -> None:
    replication.set_wal_level(plane, service.project_id, service.id, wal_level_of_form(values))


def _set_password(plane: Plane, service: Service, values: Values) -> None:
    services.update_password(plane, service.project_id, service.id, Secret(values.get("password", "")))


def _take_snapshot(plane: Plane, service: Service, values: Values) -> None:
    restore.take_snapshot(plane, service.project_id, service.id, values.get("name") or None)


def _archive(plane: Plane, service: Service, _values: Values, *, enabled: bool) -> None:
    archive.set_archive(plane, service.project_id, service.id, enabled)


def _add_replicas(plane: Plane, service: Service, values: Values) -> None:
    nodes = values.get("nodes", "")
    if not (nodes.isascii() and nodes.isdigit() and len(nodes) < 4):
        raise InvalidField("nodes", "Enter a whole number")
    cpu, memory = split_size(values.get("size", ""))
    request = replica_sets.ReplicaSetRequest(values.get("name", ""), int(nodes), cpu or "", memory or "")
    replica_sets.create_set(plane, service.project_id, service.id, request)


CHANGES: Mapping[str, Change[Service]] = {
    "pause": Change(
        "Pause",
        "Pause",
        "The server shuts down and its clients are disconnected. The data is kept.",
        _plain(services.stop_service),
        disruptive=True,
    ),
    "resume": Change(
        "Resume", "Resume", "The server starts again at the same endpoint.", _plain(services.start_service)
    ),
    "rename": Change(
        "Rename", "Rename", "Only the name changes. The id and the endpoint stay the same.", _rename, fields=("name",)
    ),
    "resize": Change(
        "Resize",
        "Resize",
        "Changes CPU and memory. The server restarts once if PostgreSQL cannot apply the new settings while it runs."
        " A paused service is resumed.",
        _resize,
        disruptive=True,
        fields=("size",),
    ),
    "environment": Change(
        "Set the environment of",
        "Set environment",
        "PROD services are protected: you must type the name before a change that interrupts clients or loses data.",
        _set_environment,
        disruptive=True,
        fields=("environment",),
    ),
    "wal-level": Change(
        "Set wal_level of",
        "Set wal_level",
        "With logical, tsdbadmin can publish tables, and other servers can subscribe to them. The server restarts once,"
        " and its read replicas; a paused service is resumed.",
        _set_wal_level,
        disruptive=True,
        fields=("wal_level",),
    ),
    "password": Change(
        "Reset the password of",
        "Reset password",
        "New connections as tsdbadmin need the new password. Open sessions are not interrupted.",
        _set_password,
        disruptive=True,
        fields=("password",),
        done="The password of tsdbadmin has been changed.",
    ),
    "snapshot": Change(
        "Take a snapshot of",
        "Take snapshot",
        "You can fork the service from this snapshot later. It is kept until you delete it; a name helps you find it.",
        _take_snapshot,
        fields=("snapshot_name",),
    ),
    "pool": Change(
        "Add a pooler to",
        "Add pooler",
        "A connection pooler with its own endpoint lets many clients share a few server connections.",
        _plain(poolers.enable_pooler),
    ),
    "unpool": Change(
        "Remove the pooler of",
        "Remove pooler",
        "Clients of the pooler's endpoint are disconnected. The service keeps running.",
        _plain(poolers.disable_pooler),
        disruptive=True,
    ),
    "archive": Change(
        "Archive",
        "Archive off the host",
        "Base backups and WAL are sent to the off-host archive, from which the service can be recovered if this host is"
        " lost.",
        partial(_archive, enabled=True),
    ),
    "unarchive": Change(
        "Stop archiving",
        "Stop archiving",
        "What is committed from now on is lost if this host is lost. What the off-host archive has is kept until it"
        " expires.",
        partial(_archive, enabled=False),
        disruptive=True,
    ),
    "optimize": Change(
        "Optimize",
        "Optimize",
        "Runs ANALYZE on all tables of all databases, which updates the planner's statistics. The service stays up.",
        _plain(services.optimize_service),
    ),
    "window": Change(
        "Set the restore window of",
        "Save",
        "How far back you can restore the service, and when snapshots are taken. A shorter window permanently deletes"
        " older snapshots. More frequent snapshots make point-in-time forks READY sooner.",
        set_restore,
        disruptive=True,
        fields=("window",),
        done="The settings of the restore window have been saved.",
    ),
    "add-replicas": Change(
        "Add read replicas to",
        "Add read replicas",
        "Creates a set of read-only standby servers behind one endpoint. They accept the service's password.",
        _add_replicas,
        fields=("name", "nodes", "size"),
    ),
    "delete": Change(
        "Delete",
        "Delete permanently",
        "Deletes the service's data, snapshots, archived WAL and read replicas. Forks of it are kept."
        " This cannot be undone.",
        _plain(services.delete_service),
        disruptive=True,
        final=True,
    ),
}


_HAS_NO_EFFECT: Mapping[tuple[str, Status], tuple[str, str]] = {
    ("pause", Status.PAUSED): ("is already paused", "resume"),
    ("resume", Status.READY): ("is not paused", "pause"),
}
"""Why a change would have no effect in a status, and the change offered instead."""


@read("/services/{service_id:str}/{change:str}", sync_to_thread=True)
def change_page(session: SignedIn, service_id: ServiceId, change: FromPath[str]) -> Response[str]:
    """Show the form of a change."""
    form = _form(session, service_id, change)
    return form.show(session, Form(_initial(form.target, change)))


@post("/services/{service_id:str}/{change:str}", sync_to_thread=True, status_code=200)
def submit_change(
    session: SignedIn, service_id: ServiceId, change: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Make a change."""
    return _form(session, service_id, change).submit(session, fields)


def _form(session: CurrentSession, service_id: str, name: str) -> ChangeForm[Service]:
    service = services.get_service(session.plane, session.project_id, service_id)
    base = f"/console/services/{service.id}"
    above = [("/console/", "Services"), (base, service.name)]
    change = find_change(CHANGES, name)
    return ChangeForm(change, service, above, f"{base}/{name}", _offered(session.plane, service, base, name))


def _initial(service: Service, name: str) -> Values:
    """Return the values that a form begins with: the present ones, and for two choices the other one."""
    if name == "window":
        return typed_settings(service)
    return {
        "name": {"rename": service.name, "add-replicas": "replicas"}.get(name, ""),
        "nodes": "1",
        "size": size_value(service.size),
        "environment": Environment.DEV if service.environment is Environment.PROD else Environment.PROD,
        "wal_level": WalLevel.REPLICA if wal_level_of(service.settings) is WalLevel.LOGICAL else WalLevel.LOGICAL,
    }


def _offered(plane: Plane, service: Service, base: str, name: str) -> Mapping[str, Any]:
    """Return what a form offers beyond its values."""
    if name == "window":
        return {"amounts": AMOUNTS, "defaults": default_settings(plane)}
    if name in ("resize", "add-replicas"):
        present = service.size if name == "resize" else None
        return {"sizes": sizes(plane, own=name == "add-replicas", present=present)}
    if (name, status_of(service)) in _HAS_NO_EFFECT:
        reason, instead = _HAS_NO_EFFECT[name, status_of(service)]
        refusal = WrongState("INVALID_STATE", f"{service.name} {reason}")
        return {"refusal": refusal, "instead": (f"{base}/{instead}", CHANGES[instead].title)}
    return {}
