"""What handlers work with: the control plane, the session, and the checked fields of a form, as dependencies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from litestar import Request, route
from litestar.di import NamedDependency, Provide
from litestar.enums import HttpMethod, RequestEncodingType
from litestar.exceptions import InternalServerException
from litestar.params import FromPath, SkipValidation

from ramet import acting
from ramet.console.auth.cookies import SESSION, other_tokens, seen_sequence
from ramet.console.auth.csrf import CSRF_FIELD, CsrfTokens
from ramet.console.auth.throttle import SignInThrottle
from ramet.console.live.change_feed import ChangeFeed
from ramet.console.views.notices import NOTICED
from ramet.control import recording
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.sessions import Sessions
from ramet.control.sign_in_links import SignInLinks
from ramet.errors import Invalid
from ramet.events.stream import count_after
from ramet.model.rights import not_allowed
from ramet.model.session import Session
from ramet.redaction import shown_fields
from ramet.workbench.running import Desk
from ramet.workbench.sessions import Workbench

CURRENT = "console_session"
"""Where the state of a request has its session, for the page of an error."""
MOST_NEWS = 100
_MOST_FIELDS = 200
_NOT_STRIPPED = ("password",)
AnyRequest = Request[Any, Any, Any]


@dataclass(frozen=True)
class ConsoleContext:
    """The control plane, and what the console itself keeps in this process.

    `reference` returns (method, path, summary) of each operation of the HTTP interface.
    """

    plane: Plane
    projects: Projects
    sessions: Sessions
    csrf: CsrfTokens
    links: SignInLinks
    throttle: SignInThrottle
    feed: ChangeFeed
    reference: Callable[[], Sequence[tuple[str, str, str]]]
    workbench: Workbench = field(default_factory=Workbench)
    desk: Desk = field(default_factory=Desk)


@dataclass(frozen=True)
class CurrentSession(Session):
    """The session of a request; `version` is the last one of the project that the change feed read before it.

    `other_tokens` open the sessions of other projects in this browser. `seen` is the number of the newest event that
    was looked at in it; None: it never looked. `wants_part` is true for a request of htmx that takes a part of the page
    only; when the browser goes back it takes all of it.
    """

    version: str
    seen: int | None
    other_tokens: Sequence[str] = field(repr=False)
    wants_part: bool
    context: ConsoleContext = field(repr=False)

    @property
    def plane(self) -> Plane:
        """The control plane, as the key of the session may use it."""
        return self.context.plane.on_behalf_of(self.key)

    @property
    def news(self) -> int:
        """How many notices there are since somebody looked; at most MOST_NEWS."""
        if self.seen is None:
            return 0
        return count_after(self.plane, self.project_id, NOTICED, self.seen, MOST_NEWS)

    @property
    def others(self) -> Sequence[Session]:
        """The sessions of other projects in this browser, by name."""
        return opened_by(self.other_tokens, self.context)

    def demand(self, operation: str) -> None:
        """Raise Forbidden unless the key of the session has the right that an operation needs."""
        if not self.may(operation):
            raise not_allowed(self.key.role, operation)


Context = NamedDependency[SkipValidation[ConsoleContext]]
SignedIn = NamedDependency[SkipValidation[CurrentSession]]
Fields = NamedDependency[SkipValidation[Mapping[str, str]]]
ServiceId = FromPath[str]


class SignedOut(Exception):
    """The request has no valid session; the answer redirects to the sign-in page.

    `has_ended_others`: it was to sign out, and has ended sessions of other projects.
    """

    def __init__(self, *, has_ended_others: bool) -> None:
        super().__init__()
        self.has_ended_others = has_ended_others


def read(path: str, *, sync_to_thread: bool, operation: str = "") -> route:
    """Return the decorator of a handler for GET and HEAD (RFC 9110, 9.3.2).

    A page of a session names the `operation` of the HTTP interface whose right it needs.
    """
    methods = [HttpMethod.GET, HttpMethod.HEAD]
    return route(path, http_method=methods, sync_to_thread=sync_to_thread, operation=operation)


def dependencies(context: ConsoleContext) -> dict[str, Provide]:
    """Return what handlers may ask for by name: `context`, `session`, `fields`."""
    return {
        "context": Provide(lambda: context, use_cache=True, sync_to_thread=False),
        "session": Provide(provide_session, sync_to_thread=True),
        "fields": Provide(provide_fields),
    }


def provide_session(request: AnyRequest, context: Context) -> CurrentSession:
    """Return the session of a request. Raises SignedOut, also when it or its key has ended; and Forbidden."""
    token = request.cookies.get(SESSION)
    session = context.sessions.find(token, context.plane.clock()) if token else None
    if session is None:
        is_leaving = request.route_handler.opt.get("operation") == "logout"
        raise SignedOut(has_ended_others=is_leaving and _end_others(request, context))
    acting.note_key(session.public_key, session.key_name, session.project_id)
    recording.begin(request.scope)
    found = CurrentSession(
        **vars(session),
        version=context.feed.last_version(session.key),
        seen=seen_sequence(request, session.project_id),
        other_tokens=other_tokens(request),
        wants_part="hx-request" in request.headers and "hx-history-restore-request" not in request.headers,
        context=context,
    )
    request.scope["state"][CURRENT] = found
    found.demand(request.route_handler.opt.get("operation", ""))
    if context.projects.is_use_due(session.key):
        context.projects.record_use(session.key)
    return found


def _end_others(request: AnyRequest, context: ConsoleContext) -> bool:
    """End the sessions of other projects in this browser, and tell whether there were any.

    Without a session in use there is no CSRF token to check, and none is needed: other sites cannot send the cookie.
    """
    found = opened_by(other_tokens(request), context)
    for one in found:
        acting.note_key(one.public_key, one.key_name, one.project_id)
        recording.begin(request.scope)
        context.sessions.end(one)
    return bool(found)


def opened_by(tokens: Sequence[str], context: ConsoleContext) -> Sequence[Session]:
    """Return the sessions that tokens open, by the names of their projects."""
    now = context.plane.clock()
    found = [context.sessions.find(token, now) for token in tokens]
    return sorted((one for one in found if one is not None), key=lambda one: one.project_name)


async def form_of(request: AnyRequest) -> Mapping[str, str]:
    """Return the fields of a form. Raises Invalid when they cannot be read.

    Litestar's `request.form()` would keep the last 1024 forms in memory: secrets, and whatever strangers send.
    """
    media_type = request.content_type[0]
    if media_type not in ("", RequestEncodingType.URL_ENCODED):
        remedy = "Send it as application/x-www-form-urlencoded."
        raise Invalid("INVALID_FORM", f"The form is sent as {media_type[:64]}", remedy)
    try:
        body = (await request.body()).decode("latin-1") if media_type else ""
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except InternalServerException as error:
        raise Invalid("FORM_INCOMPLETE", "The form did not arrive as a whole", "Send it again.") from error
    except ValueError as error:
        wrong = f"The form has more than {_MOST_FIELDS} fields"
        raise Invalid("TOO_MANY_FIELDS", wrong, "Send the fields that the page has.") from error


async def provide_fields(request: AnyRequest, session: SignedIn) -> Mapping[str, str]:
    """Return the fields of a form that one of our own pages sent, without surrounding spaces. Raises Forbidden."""
    fields = dict(await form_of(request))
    session.context.csrf.check(session, fields)
    del fields[CSRF_FIELD]
    acting.note(fields=shown_fields(fields))
    return {name: value if name in _NOT_STRIPPED else value.strip() for name, value in fields.items()}
