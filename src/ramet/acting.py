"""Who acts, from where and what: what records of changes say about a request, a command on the host, or a duty.

The edge that begins an act makes it current; whatever the act reaches, in any thread of it, can then name it.
"""

import getpass
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from msgspec import Struct

Value = str | int | float | bool | None
Fields = Mapping[str, object]


class Actor(Struct, frozen=True, omit_defaults=True):
    """Who acts: `kind` is key, host, ramet, or unknown for a request without valid credentials."""

    kind: str
    id: str = ""
    name: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "key":
                return f"key {self.name} ({self.id})"
            case "host":
                return f"the host: user {self.id}"
            case "ramet":
                return f"Ramet itself: {self.id}"
            case _:
                return "unknown"


UNKNOWN = Actor("unknown")


@dataclass
class Act:
    """One request, command or run of a duty, with what is known of it so far.

    `verb` is empty until it is known what the act does; until then nothing of it is recorded. `code` is that of the
    error it was refused with. `outcome` is what a record of it says: accepted, unless it is known better. `recorded` is
    the outcome in its newest record.
    """

    actor: Actor = UNKNOWN
    via: str = ""
    address: str | None = None
    request_id: str | None = None
    verb: str = ""
    project_id: str | None = None
    subject: str | None = None
    fields: Fields = field(default_factory=dict)
    code: str | None = None
    outcome: str = "accepted"
    recorded: str | None = None


_current: ContextVar[Act | None] = ContextVar("ramet_act", default=None)


def current() -> Act | None:
    """Return the act that this code runs for, or None."""
    return _current.get()


def actor() -> Actor | None:
    """Return who acts now, or None."""
    act = _current.get()
    return None if act is None else act.actor


@contextmanager
def acting(act: Act | None) -> Iterator[None]:
    """Make an act the current one; None: nobody acts, such as while an operation without a known actor runs."""
    token = _current.set(act)
    try:
        yield
    finally:
        _current.reset(token)


def note(
    *, verb: str | None = None, project_id: str | None = None, subject: str | None = None, fields: Fields | None = None
) -> None:
    """Say of the current act, if there is one, what it does, and in which project."""
    if (act := _current.get()) is not None:
        act.verb = act.verb if verb is None else verb
        act.project_id = act.project_id if project_id is None else project_id
        act.subject = act.subject if subject is None else subject
        act.fields = act.fields if fields is None else {**act.fields, **fields}


def verb_of(function: object) -> str:
    """Return the verb that a function implements: rename_service is renameService."""
    name = getattr(getattr(function, "func", function), "__name__", "")
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name.strip("_"))


def note_key(public_key: str, name: str, project_id: str) -> None:
    """Say of the current act, if there is one, that it is one of an API key, and belongs to the key's project."""
    if (act := _current.get()) is not None:
        act.actor, act.project_id = Actor("key", public_key, name), project_id


def note_error(code: str) -> None:
    """Say of the current act, if there is one, with which error it was refused."""
    if (act := _current.get()) is not None:
        act.code = code


def host_user() -> Actor:
    """Return the actor for commands that the user of this process runs on the host."""
    try:
        return Actor("host", getpass.getuser())
    except (KeyError, OSError):
        return Actor("host", "unnamed")


def on_host(verb: str, **fields: object) -> Act:
    """Return the act of a command on the host."""
    return Act(host_user(), "host", verb=verb, fields=fields)
