"""Signing in with an API key or by a link that works once, and signing out."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from litestar import Response, get, post
from litestar.params import FromPath

from ramet import acting
from ramet.console.auth.cookies import SESSION, delete_sessions, mark_seen, other_tokens, seen_sequence, set_sessions
from ramet.console.auth.throttle import Attempt
from ramet.console.context import (
    AnyRequest,
    ConsoleContext,
    Context,
    Fields,
    SignedIn,
    form_of,
    opened_by,
    read,
)
from ramet.console.rendering import HEADERS, page, redirect
from ramet.control import recording
from ramet.control.origin import is_same_origin
from ramet.errors import Unauthorized
from ramet.events.stream import newest_sequence
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret
from ramet.model.session import SESSION_LIFE

LINKS = "/console/enter"
_HOME = "/console/"
_KEY_LIMIT = 200


@read("/sign-in", sync_to_thread=True)
def sign_in_page(request: AnyRequest, context: Context) -> Response[str]:
    """Show the form. `next` in the query is the page to open afterwards; `ended` says that a session has ended.

    Who has sessions of other projects only may sign out of them here: no other page is shown without one in use.
    """
    token = request.cookies.get(SESSION)
    session = context.sessions.find(token, context.plane.clock()) if token else None
    others = [] if session is not None else opened_by(other_tokens(request), context)
    return _form(
        _local(str(request.query_params.get("next", _HOME))),
        ended="ended" in request.query_params,
        staying="" if session is None else session.project_name,
        others=[one.project_name for one in others],
    )


@post("/sign-in", status_code=200)
async def sign_in(request: AnyRequest, context: Context) -> Response[str]:
    """Begin a session for the holder of a key."""
    form = await form_of(request)
    next_path = _local(form.get("next", _HOME))
    try:
        key = await _key_of(request, context, form)
        return await asyncio.to_thread(_signed_in, request, context, key, next_path)
    except _Refused as refused:
        acting.note_error(refused.code)
        answer = _form(next_path, refused.problem, _typed(form, "public_key"), status_code=refused.status)
        answer.headers.update(refused.headers)
        return answer


@post("/link", status_code=201)
async def make_link(request: AnyRequest, context: Context) -> Response[dict[str, str]]:
    """Return the path of a link that signs in once to a program that holds a key."""
    form = await form_of(request)
    try:
        key = await _key_of(request, context, form)
    except _Refused as refused:
        acting.note_error(refused.code)
        body = {"code": refused.code, "message": refused.problem}
        return Response(body, status_code=refused.status, headers={**HEADERS, **refused.headers})
    token = await asyncio.to_thread(context.links.make, key)
    return Response({"path": f"{LINKS}/{token}"}, headers=dict(HEADERS))


@get("/enter/{token:str}", sync_to_thread=True)
def enter(request: AnyRequest, context: Context, token: FromPath[str]) -> Response[str]:
    """Begin a session by a link, which is invalid afterwards, and open the page `next`.

    A link that a page leads to is refused, also one of ours: whoever makes it chooses the project that one works in.
    """
    if request.headers.get("sec-fetch-site", "none") != "none":
        problem = "A page opened this link. If the link is yours, paste it into the address bar."
        return _form(_HOME, problem, status_code=403)
    proven = context.links.use(token)
    if proven is None:
        problem = (
            "This link was already used, or has expired. Run 'ramet console' for a new one, or sign in with a key."
        )
        return _form(_HOME, problem, status_code=410)
    acting.note_key(proven.public_key, proven.name, proven.project_id)
    acting.note(verb="signIn")
    return _signed_in(request, context, proven, _local(str(request.query_params.get("next", _HOME))))


@post("/sign-out", operation="logout", sync_to_thread=True, status_code=303)
def sign_out(session: SignedIn, fields: Fields) -> Response[None]:
    """End the sessions of this browser in the store, so that every copy of their cookies becomes invalid."""
    for one in (session, *session.others):
        session.context.sessions.end(one)
    answer = redirect("/console/sign-in")
    delete_sessions(answer)
    return answer


class _Refused(Exception):
    """The sign-in is refused: the sentence for the user, and the HTTP answer."""

    def __init__(self, status: int, code: str, problem: str, headers: Mapping[str, str]) -> None:
        super().__init__(problem)
        self.status, self.code, self.problem, self.headers = status, code, problem, headers


def _form(
    next_path: str,
    problem: str = "",
    public_key: str = "",
    *,
    ended: bool = False,
    staying: str = "",
    others: Sequence[str] = (),
    status_code: int = 200,
) -> Response[str]:
    return page(
        "sign_in.html",
        next_path=next_path,
        problem=problem,
        public_key=public_key,
        ended=ended,
        staying=staying,
        others=others,
        status_code=status_code,
    )


async def _key_of(request: AnyRequest, context: ConsoleContext, form: Mapping[str, str]) -> ApiKey:
    """Return the key that a form holds. Raises _Refused, after a delay when the attempt is throttled."""
    if not is_same_origin(request.headers):
        raise _Refused(403, "FORBIDDEN", "This form came from another site. Sign in on this page", {})
    attempt = (request.client.host if request.client else "", _typed(form, "public_key"))
    is_throttled = context.throttle.is_throttled(attempt)
    if is_throttled and context.throttle.acquire(attempt):
        try:
            await asyncio.sleep(context.throttle.delay_seconds)
        finally:
            context.throttle.release(attempt)
    # Where no place is free, somebody else may hold them all: the right secret is accepted there, too.
    try:
        return await _authenticated(request, context, form, attempt)
    except _Refused as refused:
        if not is_throttled:
            raise
        raise _too_many(context) from refused


async def _authenticated(
    request: AnyRequest, context: ConsoleContext, form: Mapping[str, str], attempt: Attempt
) -> ApiKey:
    secret = Secret(_typed(form, "secret_key"))
    try:
        key = await asyncio.to_thread(context.projects.authenticate, attempt[1], secret)
        acting.note_key(key.public_key, key.name, key.project_id)
        recording.begin(request.scope)
        return key
    except Unauthorized as error:
        recording.claim(attempt[1])
        context.throttle.record_failure(attempt)
        problem = "This key is unknown or revoked, or the secret is wrong. Run 'ramet key create' for a new key"
        raise _Refused(401, error.code, problem, {}) from error


def _too_many(context: ConsoleContext) -> _Refused:
    seconds = max(1, round(context.throttle.delay_seconds))
    problem = f"Too many failed attempts with this key: each one now takes {seconds} seconds"
    return _Refused(429, "TOO_MANY_ATTEMPTS", problem, {"Retry-After": str(seconds)})


def _typed(form: Mapping[str, str], name: str) -> str:
    return form.get(name, "").strip()[:_KEY_LIMIT]


def _signed_in(request: AnyRequest, context: ConsoleContext, key: ApiKey, next_path: str) -> Response[str]:
    """Begin a session, and answer with a page that opens the next one. Sessions of other projects are kept.

    Raises Unauthorized for a key that does not open its project any more.

    A redirect would not do: after a link on another site, browsers follow it without the SameSite=Strict cookie.
    """
    now = context.plane.clock()
    token = context.sessions.begin(key, now)
    others = _of_other_projects(request, context, key)
    answer = page("signed_in.html", next_path=next_path)
    set_sessions(request, answer, token, others, int(SESSION_LIFE.total_seconds()))
    if seen_sequence(request, key.project_id) is None:
        mark_seen(request, answer, key.project_id, newest_sequence(context.plane.store))
    return answer


def _of_other_projects(request: AnyRequest, context: ConsoleContext, key: ApiKey) -> list[str]:
    """Return the tokens of the sessions of other projects; one of the same project is ended."""
    kept, now = [], context.plane.clock()
    for token in [request.cookies.get(SESSION, ""), *other_tokens(request)]:
        session = context.sessions.find(token, now) if token else None
        if session is not None and session.project_id == key.project_id:
            context.sessions.end(session)
        elif session is not None:
            kept.append(token)
    return kept


def _local(path: str) -> str:
    """Return the page to open after signing in: `path` when it is one of the console, else its start page.

    None signs in to another project: browsers without Sec-Fetch-Site, over plain HTTP, do not say what led to a link.
    """
    is_ours = path.startswith("/console/") and "\\" not in path and path.isprintable() and "//" not in path
    head = unquote(re.split("[?#]", path)[0])
    may_be_link = head.startswith(LINKS) or "/." in head or "//" in head  # no page has these
    return path if is_ours and not may_be_link else _HOME
