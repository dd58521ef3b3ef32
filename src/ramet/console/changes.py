"""Changing a service: one page a verb, which says what it does and asks for confirmation where it can hurt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from litestar import Response, get, post
from litestar.params import FromPath

from ramet.console.forms import Form, confirm, environment_of, refused, size_value, sizes, split_size
from ramet.console.pages import HEADERS, page
from ramet.console.parts import ConsoleParts, Fields, Parts, ServiceId, SignedIn
from ramet.console.problems import status_for
from ramet.console.session import Session
from ramet.control import changes, poolers, windows
from ramet.control.control import Control
from ramet.errors import Error, NotFound
from ramet.model.credentials import Secret
from ramet.model.service import Environment, Service

Values = Mapping[str, str]


@dataclass(frozen=True)
class Verb:
    """A change. `hurts`: it interrupts clients or loses something, so PROD services want their name typed."""

    title: str
    button: str
    explanation: str
    perform: Callable[[Control, Service, Values], object]
    hurts: bool = False
    final: bool = False
    field: str = ""


def _pause(control: Control, service: Service, _: Values) -> None:
    control.stop_service(service.project_id, service.id)


def _resume(control: Control, service: Service, _: Values) -> None:
    control.start_service(service.project_id, service.id)


def _delete(control: Control, service: Service, _: Values) -> None:
    control.delete_service(service.project_id, service.id)


def _rename(control: Control, service: Service, values: Values) -> None:
    changes.rename_service(control, service.project_id, service.id, values.get("name", ""))


def _set_environment(control: Control, service: Service, values: Values) -> None:
    changes.set_environment(control, service.project_id, service.id, environment_of(values))


def _resize(control: Control, service: Service, values: Values) -> None:
    cpu, memory = split_size(values.get("size", ""))
    changes.resize_service(control, service.project_id, service.id, cpu, memory)


def _set_password(control: Control, service: Service, values: Values) -> None:
    changes.update_password(control, service.project_id, service.id, Secret(values.get("password", "")))


def _take_snapshot(control: Control, service: Service, values: Values) -> None:
    windows.take_snapshot(control, service.project_id, service.id, values.get("name") or None)


def _add_pooler(control: Control, service: Service, _: Values) -> None:
    poolers.enable_pooler(control, service.project_id, service.id)


def _remove_pooler(control: Control, service: Service, _: Values) -> None:
    poolers.disable_pooler(control, service.project_id, service.id)


VERBS: Mapping[str, Verb] = {
    "pause": Verb(
        "Pause", "Pause it", "Its server stops cleanly and clients are turned away. The data stays.", _pause, hurts=True
    ),
    "resume": Verb("Resume", "Resume it", "Its server starts again at the same endpoint.", _resume),
    "rename": Verb("Rename", "Rename it", "Only the name changes; id and endpoint stay.", _rename, field="name"),
    "resize": Verb(
        "Resize",
        "Resize it",
        "CPU and memory change. Where PostgreSQL cannot do it live, the server restarts once.",
        _resize,
        hurts=True,
        field="size",
    ),
    "environment": Verb(
        "Set the environment of",
        "Set it",
        "PROD services are protected: what can hurt them needs their name typed.",
        _set_environment,
        hurts=True,
        field="environment",
    ),
    "password": Verb(
        "Reset the password of",
        "Reset it",
        "From then on only the new password of tsdbadmin opens it; open sessions go on.",
        _set_password,
        hurts=True,
        field="password",
    ),
    "snapshot": Verb(
        "Take a snapshot of",
        "Take it",
        "A state to fork from later. It stays until it is deleted; a name helps to find it.",
        _take_snapshot,
        field="snapshot_name",
    ),
    "pool": Verb(
        "Add a pooler to", "Add it", "An endpoint of its own that lets many clients share few sessions.", _add_pooler
    ),
    "unpool": Verb(
        "Remove the pooler of",
        "Remove it",
        "Clients of its endpoint are cut off; the service itself goes on.",
        _remove_pooler,
        hurts=True,
    ),
    "delete": Verb(
        "Delete",
        "Delete it for good",
        "Its data, snapshots and archive are removed. Its forks stay. There is no way back.",
        _delete,
        hurts=True,
        final=True,
    ),
}


@get("/services/{service_id:str}/{verb:str}", sync_to_thread=True)
def change_page(parts: ConsoleParts, session: SignedIn, service_id: ServiceId, verb: FromPath[str]) -> Response[str]:
    """Ask for confirmation."""
    service = parts.control.get_service(session.project_id, service_id)
    values = {
        "name": service.name if verb == "rename" else "",
        "size": size_value(service.size),
        "environment": Environment.DEV if service.environment is Environment.PROD else Environment.PROD,
    }
    return _change_page(parts, session, service, verb, Form(values))


@post("/services/{service_id:str}/{verb:str}", sync_to_thread=True, status_code=200)
def change(
    parts: ConsoleParts, session: SignedIn, service_id: ServiceId, verb: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """Make the change, and go back to the service."""
    service = parts.control.get_service(session.project_id, service_id)
    chosen = _verb(verb)
    try:
        if chosen.hurts:
            confirm(service, fields, always=chosen.final)
        chosen.perform(parts.control, service, fields)
    except Error as error:
        status = status_for(error)
        return _change_page(parts, session, service, verb, refused(fields, error), 422 if status == 400 else status)
    where = "/console/" if chosen.final else f"/console/services/{service.id}"
    return Response(None, status_code=303, headers={**HEADERS, "Location": where})


def _change_page(
    parts: Parts, session: Session, service: Service, verb: str, form: Form, status_code: int = 200
) -> Response[str]:
    chosen = _verb(verb)
    needs_name = chosen.hurts and (chosen.final or service.environment is Environment.PROD)
    return page(
        "change.html",
        parts,
        session,
        service=service,
        verb=chosen,
        action=f"/console/services/{service.id}/{verb}",
        form=form,
        needs_name=needs_name,
        sizes=sizes(parts.control),
        status_code=status_code,
    )


def _verb(name: str) -> Verb:
    if name not in VERBS:
        raise NotFound("NOT_FOUND", "There is no such page.")
    return VERBS[name]
