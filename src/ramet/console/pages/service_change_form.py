"""The form of a change of a service: the values that it begins with, and what it offers or refuses."""

from collections.abc import Mapping
from typing import Any

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.pages.change_form import ChangeForm, Values, find_change, verbs_of
from ramet.console.pages.service_changes import CHANGES
from ramet.console.pages.warm_forks import warm_values
from ramet.console.views.forms import Form, size_value, sizes
from ramet.console.views.life_spans import kept_values
from ramet.console.views.restore_settings import AMOUNTS, default_settings, typed_settings
from ramet.control import restore, services
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.high_availability import standbys_of
from ramet.model.service import Service, status_of
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.restores.verbs import refusal_of

_HAS_NO_EFFECT: Mapping[tuple[str, Status], tuple[str, str]] = {
    ("pause", Status.PAUSED): ("is already paused", "resume"),
    ("resume", Status.READY): ("is not paused", "pause"),
}
"""Why a change would have no effect in a status, and the change offered instead."""


@read("/services/{service_id:str}/{change:str}", operation="getService", sync_to_thread=True)
def change_page(session: SignedIn, service_id: ServiceId, change: FromPath[str]) -> Response[str]:
    """Show the form of a change."""
    form = _form(session, service_id, change)
    return form.show(session, Form(_initial(form.target, change)))


@post(
    "/services/{service_id:str}/{change:str}",
    operation="getService",
    verbs=verbs_of(CHANGES),
    sync_to_thread=True,
    status_code=200,
)
def submit_change(
    session: SignedIn, service_id: ServiceId, change: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Make a change."""
    return _form(session, service_id, change).submit(session, fields)


def _form(session: CurrentSession, service_id: str, name: str) -> ChangeForm[Service]:
    change = find_change(session, CHANGES, name)
    service = services.get_service(session.plane, session.project_id, service_id)
    base = f"/console/services/{service.id}"
    above = [("/console/", "Services"), (base, service.name)]
    return ChangeForm(change, service, above, f"{base}/{name}", _offered(session.plane, service, base, name))


def _initial(service: Service, name: str) -> Values:
    """Return the values that a form begins with: the present ones, and for two choices the other one."""
    if name == "window":
        return typed_settings(service)
    return {
        "name": {"rename": service.name, "add-replicas": "replicas"}.get(name, ""),
        **kept_values(service),
        **warm_values(service),
        "strategy": ForkStrategy.NOW,
        "nodes": "1",
        "replicas": str(standbys_of(service.settings).count),
        "synchronous": str(standbys_of(service.settings).synchronous),
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
    if name in ("reset", "rewind"):
        return _replaced(plane, service, base, name)
    if name == "promote" and service.upstream is None:
        return {"refusal": WrongState("NOT_FOLLOWING", f"{service.name} follows no source"), "instead": None}
    if (name, status_of(service)) in _HAS_NO_EFFECT and not service.asleep:
        reason, instead = _HAS_NO_EFFECT[name, status_of(service)]
        refusal = WrongState("INVALID_STATE", f"{service.name} {reason}")
        return {"refusal": refusal, "instead": (f"{base}/{instead}", CHANGES[instead].title)}
    return {}


def _replaced(plane: Plane, service: Service, base: str, name: str) -> Mapping[str, Any]:
    """Return the checkpoints to choose from, or why the data of a service cannot be replaced."""
    refusal = refusal_of(service)
    if refusal is not None:
        return {"refusal": refusal}
    if name == "reset" and service.origin is None:
        refusal = WrongState("NOT_A_FORK", f"{service.name} is not a fork, so that it has no parent")
        return {"refusal": refusal, "instead": (f"{base}/restores", "Restore")}
    taken = restore.list_snapshots(plane, service.project_id, service.id)
    manual = [one for one in taken if isinstance(one, Snapshot) and one.kind is SnapshotKind.MANUAL and one.name]
    names = list(dict.fromkeys(one.name for one in sorted(manual, key=lambda one: one.taken_at, reverse=True)))
    if name == "rewind" and not names:
        refusal = WrongState("NO_CHECKPOINT", f"{service.name} has no checkpoint")
        return {"refusal": refusal, "instead": (f"{base}/checkpoint", "Make a checkpoint")}
    return {"checkpoints": names}
