"""Forms: the choices they offer, the values they keep, and which field an error stands beside."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

from ramet.console.views.format import size_text
from ramet.control.plane import Plane
from ramet.errors import Error, Invalid
from ramet.model.fork import ForkStrategy
from ramet.model.resources import PUBLIC_SIZES, SHARED, Size
from ramet.model.service import Environment, Service

_FIELDS: Mapping[str, str] = {
    "INVALID_NAME": "name",
    "INVALID_SIZE": "size",
    "INVALID_TARGET_TIME": "target_time",
    "TARGET_TIME_REQUIRED": "target_time",
    "TARGET_TIME_IN_FUTURE": "target_time",
    "OUTSIDE_RESTORE_WINDOW": "target_time",
    "INVALID_PASSWORD": "password",
    "INVALID_NODES": "nodes",
    "CONFIRMATION_NEEDED": "confirmation",
    "EXTENSION_MISSING": "service_type",
}


_SENTENCES: Mapping[str, str] = {
    "TARGET_TIME_REQUIRED": "Choose the moment on the time line, or type it",
    "TARGET_TIME_IN_FUTURE": "The moment lies in the future. Choose one that has passed, or “Now”",
    "INVALID_NAME": "A name has 1 to 128 printable characters, and not only disk_usage",
}
"""What a form says in the place of the interface's words, which name its fields."""


class InvalidField(Invalid):
    """A field of a form holds what it cannot hold."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__("MISFILLED", message)
        self.name = name


class Protected(Protocol):
    """What can be in need of protection: a service, or a set of replicas."""

    @property
    def name(self) -> str:
        """What is to be typed."""

    @property
    def environment(self) -> Environment:
        """How much is at stake."""


@dataclass(frozen=True)
class Form:
    """What was typed, and what is wrong with it: by field, and under "" what belongs to none."""

    values: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def problem(self, name: str) -> str:
        """Return what is wrong with a field, or an empty text."""
        return self.problems.get(name, "")


def refused(values: Mapping[str, str], error: Error) -> Form:
    """Return a form with an error beside the field that caused it."""
    name = error.name if isinstance(error, InvalidField) else _FIELDS.get(error.code, "")
    return Form(values, {name: sentence_of(error)})


def sentence_of(error: Error) -> str:
    """Return an error in the words of the forms."""
    return _SENTENCES.get(error.code) or str(error)


def new_key() -> str:
    """Return a key for a form that makes a service: sent twice, it makes one."""
    return f"console-{secrets.token_urlsafe(18)}"


def again_path(service: Service) -> str:
    """Return the address of the form that makes a service again, filled in as it was."""
    asked = {"name": service.name, "size": size_value(service.size), "environment": service.environment}
    origin = service.origin
    if origin is None:
        return f"/console/new?{urlencode({**asked, 'service_type': service.service_type})}"
    asked["strategy"] = origin.strategy
    if origin.strategy == ForkStrategy.LAST_SNAPSHOT and origin.snapshot_id:
        asked["snapshot_id"] = origin.snapshot_id
    if origin.target_time:
        asked["target_time"] = origin.target_time
    return f"/console/services/{origin.service_id}/fork?{urlencode(asked)}"


def sizes(
    plane: Plane, inherited: Size | None = None, *, own: bool = False, present: Size | None = None
) -> list[tuple[str, str]]:
    """Return (value, text) of the sizes to choose from; the empty value stands for the parent's.

    `own` leaves out the share of the host; a `present` size can be kept, however unusual it is.
    """
    host = plane.backend.host.size()
    choices = [] if inherited is None else [("", f"As its parent: {size_text(inherited)}")]
    if not own:
        choices.append((SHARED, "Shared: a share of the host"))
    fitting = [
        Size(cpu, memory)
        for cpu, memory in PUBLIC_SIZES
        if cpu <= (host.cpu_millis or cpu) and memory <= (host.memory_gbs or memory)
    ]
    if present is not None and not present.shared and present not in fitting:
        fitting.insert(0, present)
    return [*choices, *((size_value(one), size_text(one)) for one in fitting)]


def size_value(size: Size) -> str:
    """Return the value under which a size is offered."""
    return SHARED if size.shared else f"{size.cpu_millis}/{size.memory_gbs}"


def split_size(value: str) -> tuple[str | None, str | None]:
    """Return cpu_millis and memory_gbs of a chosen size; None: inherited."""
    if not value:
        return None, None
    if value == SHARED:
        return SHARED, SHARED
    cpu, _, memory = value.partition("/")
    return cpu, memory


def environment_of(values: Mapping[str, str]) -> Environment:
    """Return the environment that was chosen. Raises Invalid."""
    chosen = values.get("environment", Environment.DEV)
    if chosen not in tuple(Environment):
        raise Invalid("INVALID_FIELD", f"environment must be DEV or PROD, not {chosen[:20]!r}")
    return Environment(chosen)


def confirm(thing: Protected, values: Mapping[str, str]) -> None:
    """Raise Invalid unless the thing's name was typed, whatever white space stands in and around it."""
    if values.get("confirmation", "").split() != thing.name.split():
        raise Invalid("CONFIRMATION_NEEDED", f"Type {thing.name!r} to confirm")
