"""What every page works with: the verbs, who is signed in, and the checked fields of a form; as dependencies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from litestar import Request, route
from litestar.di import NamedDependency, Provide
from litestar.enums import HttpMethod
from litestar.params import FromPath, SkipValidation

from ramet.console.auth.browser_secrets import COOKIE, Brake, FormMarks, Links
from ramet.console.live.change_feed import Pulses
from ramet.console.views.disk_usage import Spaces
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.sessions import Sessions
from ramet.errors import Forbidden
from ramet.model.session import Session

FORM_MARK = "_token"
FORM_EXPIRED = "FORM_EXPIRED"
_AS_TYPED = ("password",)
AnyRequest = Request[Any, Any, Any]


@dataclass(frozen=True)
class Entry:
    """One operation of the HTTP interface, for the reference."""

    method: str
    path: str
    summary: str


@dataclass(frozen=True)
class Parts:
    """The verbs, and what the console itself keeps in this process."""

    plane: Plane
    projects: Projects
    sessions: Sessions
    marks: FormMarks
    links: Links
    brake: Brake
    pulses: Pulses
    spaces: Spaces
    reference: Callable[[], Sequence[Entry]]


ConsoleParts = NamedDependency[SkipValidation[Parts]]
SignedIn = NamedDependency[SkipValidation["Visit"]]
Fields = NamedDependency[SkipValidation[Mapping[str, str]]]
ServiceId = FromPath[str]


@dataclass(frozen=True)
class Visit(Session):
    """A request of somebody who is signed in; `version` is that of the last look at the project before it came."""

    version: str


class SignedOut(Exception):
    """Nobody is signed in: the way leads to the sign-in page."""


def read(path: str, *, sync_to_thread: bool) -> route:
    """Return the decorator of a page that is read: what answers GET answers HEAD (RFC 9110, 9.3.2)."""
    return route(path, http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=sync_to_thread)


def dependencies(parts: Parts) -> dict[str, Provide]:
    """Return what handlers may ask for by name: `parts`, `session`, `fields`."""
    return {
        "parts": Provide(lambda: parts, use_cache=True, sync_to_thread=False),
        "session": Provide(provide_session, sync_to_thread=True),
        "fields": Provide(provide_fields),
    }


def provide_session(request: AnyRequest, parts: ConsoleParts) -> Visit:
    """Return who is signed in. Raises SignedOut, also when the session was ended, or its key revoked, meanwhile."""
    token = request.cookies.get(COOKIE)
    session = parts.sessions.find(token, parts.plane.clock()) if token else None
    if session is None:
        raise SignedOut
    return Visit(**vars(session), version=parts.pulses.last_version(session.project_id))


async def provide_fields(request: AnyRequest, parts: ConsoleParts, session: SignedIn) -> Mapping[str, str]:
    """Return the fields of a form that came from one of our own pages. Raises Forbidden."""
    form = await request.form()
    given = {name: value for name, value in form.items() if isinstance(value, str)}
    if not compare_digest(given.pop(FORM_MARK, "").encode(), parts.marks.of(session).encode()):
        raise Forbidden(FORM_EXPIRED, "This form was made for another session", "Fill it in anew.")
    return {name: value if name in _AS_TYPED else value.strip() for name, value in given.items()}
