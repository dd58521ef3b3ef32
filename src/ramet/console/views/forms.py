"""Forms: the choices they offer, the values they keep, and the field that an error belongs to."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from ramet.console.views.format import size_text
from ramet.control.plane import Plane
from ramet.errors import Error, Invalid
from ramet.model.environment import Environment
from ramet.model.service import Service
from ramet.model.size import PUBLIC_SIZES, SHARED, Size
from ramet.model.wal_level import WalLevel

_FIELDS: Mapping[str, str] = {
    "INVALID_NAME": "name",
    "INVALID_SIZE": "size",
    "INVALID_TARGET_TIME": "target_time",
    "TARGET_TIME_REQUIRED": "target_time",
    "TARGET_TIME_IN_FUTURE": "target_time",
    "OUTSIDE_RESTORE_WINDOW": "target_time",
    "INVALID_PASSWORD": "password",
    "INVALID_LABEL": "labels",
    "LIFE_SPAN_TOO_LONG": "ttl",
    "INVALID_SOURCE": "url",
    "INVALID_WEBHOOK_URL": "url",
    "SOURCE_UNREADABLE": "url",
    "INVALID_NODES": "nodes",
    "CONFIRMATION_NEEDED": "confirmation",
    "CONFIRMATION_REQUIRED": "confirmation",
    "SNAPSHOT_NOT_FOUND": "snapshot_id",
    "OTHER_KIND_OF_SERVICE": "from_service_id",
    "EXTENSION_MISSING": "service_type",
    "INVALID_VERSION": "version",
}


_SENTENCES: Mapping[str, str] = {
    "TARGET_TIME_REQUIRED": "Choose a time on the timeline, or enter one",
    "TARGET_TIME_IN_FUTURE": "This time is in the future. Choose an earlier one, or “Now”",
    "IDEMPOTENCY_KEY_REUSED": (
        "This form was sent before with other values, and accepted. Look what it did; send it again if you want both"
    ),
    "INVALID_NAME": "The name must have 1 to 128 printable characters, and cannot consist of spaces only",
}
"""Messages that replace those of the HTTP interface, which name its fields."""


class InvalidField(Invalid):
    """A field of a form has an invalid value."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__("MISFILLED", message)
        self.name = name


@dataclass(frozen=True)
class Form:
    """The values of a form, and the problems by field; "" is the key of a problem that belongs to no field."""

    values: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def problem(self, name: str) -> str:
        """Return the problem of a field, or an empty text."""
        return self.problems.get(name, "")

    def has(self, *names: str) -> bool:
        """Tell whether one of the fields has a value or a problem."""
        return any(self[name] or self.problem(name) for name in names)


def refused(values: Mapping[str, str], error: Error) -> Form:
    """Return a form with an error at the field that caused it. A form whose key was used for another gets a new one."""
    if error.code == "IDEMPOTENCY_KEY_REUSED":
        values = {**values, "key": new_key()}
    name = error.name if isinstance(error, InvalidField) else _FIELDS.get(error.code, "")
    return Form(values, {name: sentence_of(error)})


def sentence_of(error: Error) -> str:
    """Return the message of an error as a form shows it."""
    return _SENTENCES.get(error.code) or str(error)


def new_key() -> str:
    """Return an idempotency key: a form that is sent twice creates one service."""
    return f"console-{secrets.token_urlsafe(18)}"


def values_of(service: Service, url: str, root_certificate: str | None) -> dict[str, str]:
    """Return the values of the form of a service from a source, without the password."""
    return {
        "name": service.name,
        "size": size_value(service.size),
        "environment": service.environment,
        "url": url,
        "root_certificate": root_certificate or "",
    }


def sizes(
    plane: Plane, inherited: Size | None = None, *, own: bool = False, present: Size | None = None
) -> list[tuple[str, str]]:
    """Return (value, text) of the sizes to choose from; the empty value means the parent's size.

    `own` leaves out the shared size. A `present` size can be kept even if it is not one of the public sizes.
    """
    host = plane.backend.host.size()
    choices = [] if inherited is None else [("", f"Same as the parent: {size_text(inherited)}")]
    if not own:
        choices.append((SHARED, "Shared: uses CPU and memory that no other service needs"))
    fitting = [
        Size(cpu, memory)
        for cpu, memory in PUBLIC_SIZES
        if cpu <= (host.cpu_millis or cpu) and memory <= (host.memory_gbs or memory)
    ]
    if present is not None and not present.shared and present not in fitting:
        fitting.insert(0, present)
    return [*choices, *((size_value(one), size_text(one)) for one in fitting)]


def size_value(size: Size) -> str:
    """Return the form value of a size."""
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
    """Return the chosen environment. Raises Invalid."""
    chosen = values.get("environment", Environment.DEV)
    if chosen not in tuple(Environment):
        raise Invalid("INVALID_FIELD", f"environment must be DEV or PROD, not {chosen[:20]!r}")
    return Environment(chosen)


def wal_level_of_form(values: Mapping[str, str]) -> WalLevel:
    """Return the chosen wal_level. Raises Invalid."""
    chosen = values.get("wal_level") or WalLevel.REPLICA
    if chosen not in tuple(WalLevel):
        raise Invalid("INVALID_FIELD", f"wal_level must be replica or logical, not {chosen[:20]!r}")
    return WalLevel(chosen)


def standbys_of_form(values: Mapping[str, str]) -> tuple[int, int]:
    """Return how many replicas are wanted, and how many of them synchronous. Raises Invalid."""
    return whole_number(values, "replicas", 2), whole_number(values, "synchronous", 2)


def wanted_major(values: Mapping[str, str]) -> int | None:
    """Return the major version of PostgreSQL that was chosen; None: by default. Raises Invalid."""
    return major_of(values) if values.get("version") else None


def major_of(values: Mapping[str, str]) -> int:
    """Return the chosen major version of PostgreSQL. Raises Invalid."""
    return whole_number(values, "version", 3, "Choose a version")


def whole_number(values: Mapping[str, str], name: str, digits: int, message: str = "Enter a whole number") -> int:
    """Return the whole number in a field, which has at most so many digits. Raises Invalid with the message."""
    text = values.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise InvalidField(name, message)
    return int(text)


def span_of(text: str) -> int | None:
    """Return how many seconds a timeline shows; None for all of it."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text) > 0 else None


def confirm(name: str, values: Mapping[str, str]) -> None:
    """Raise Invalid unless the name was typed; differences in white space do not matter."""
    if values.get("confirmation", "").split() != name.split():
        raise Invalid("CONFIRMATION_NEEDED", f"Type {name!r} to confirm")
