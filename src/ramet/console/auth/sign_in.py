"""Signing in with an API key or by a link that works once, and signing out."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath

from ramet.console.auth.browser_secrets import COOKIE, Guess
from ramet.console.context import AnyRequest, ConsoleParts, Fields, Parts, SignedIn, read
from ramet.console.views.rendering import HEADERS, page
from ramet.errors import Unauthorized
from ramet.model.credentials import Secret
from ramet.model.project import ApiKey
from ramet.model.session import SESSION_LIFE

LINKS = "/console/enter"
_HOME = "/console/"
_KEY_LIMIT = 200


@read("/sign-in", sync_to_thread=False)
def sign_in_page(request: AnyRequest) -> Response[str]:
    """Show the form; `next` in the query says where to go afterwards, `ended` that a session came to its end."""
    wanted, ended = str(request.query_params.get("next", _HOME)), "ended" in request.query_params
    return page("sign_in.html", next_path=_local(wanted), problem=None, public_key="", ended=ended)


@post("/sign-in", status_code=200)
async def sign_in(request: AnyRequest, parts: ConsoleParts) -> Response[str]:
    """Open a session for the holder of a key. Who guesses too often has to wait."""
    form = await request.form()
    next_path = _local(str(form.get("next", _HOME)))
    try:
        key = await _opened(request, parts, form)
        return await asyncio.to_thread(_entered, request, parts, key, next_path)
    except _Refused as refused:
        public_key = _typed(form, "public_key")
        answer = page("sign_in.html", next_path=next_path, problem=refused.problem, public_key=public_key)
        answer.status_code = refused.status
        answer.headers.update(refused.headers)
        return answer


@post("/link", status_code=201)
async def make_link(request: AnyRequest, parts: ConsoleParts) -> Response[dict[str, str]]:
    """Answer the holder of a key, a program, with the path of a link that signs in once."""
    form = await request.form()
    try:
        key = await _opened(request, parts, form)
    except _Refused as refused:
        body = {"code": refused.code, "message": refused.problem}
        return Response(body, status_code=refused.status, headers={**HEADERS, **refused.headers})
    return Response({"path": f"{LINKS}/{parts.links.make(key.public_key)}"}, headers=dict(HEADERS))


@get("/enter/{token:str}", sync_to_thread=True)
def enter(request: AnyRequest, parts: ConsoleParts, token: FromPath[str]) -> Response[str]:
    """Open a session by a link; the link is used up then. One that another site leads to may not be the viewer's."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        problem = "Another site led here. If the link is yours, copy it into the address bar."
        return page("sign_in.html", next_path=_HOME, problem=problem, public_key="", status_code=403)
    public_key = parts.links.use(token)
    if public_key is None:
        problem = "This link has been used, or is too old. 'ramet console' prints a new one; or sign in with a key."
        return page("sign_in.html", next_path=_HOME, problem=problem, public_key="", status_code=410)
    return _entered(request, parts, parts.projects.active_key(public_key), _HOME)


@post("/sign-out", sync_to_thread=True, status_code=303)
def sign_out(parts: ConsoleParts, session: SignedIn, fields: Fields) -> Response[None]:
    """End the session: its cookie opens nothing from now on, wherever a copy of it is."""
    parts.sessions.end(session)
    answer: Response[None] = Response(None, status_code=303, headers={**HEADERS, "Location": "/console/sign-in"})
    answer.delete_cookie(COOKIE, path="/console")
    return answer


class _Refused(Exception):
    """Nobody is signed in: why, and what that is in HTTP."""

    def __init__(self, status: int, code: str, problem: str, headers: Mapping[str, str]) -> None:
        super().__init__(problem)
        self.status, self.code, self.problem, self.headers = status, code, problem, headers


async def _opened(request: AnyRequest, parts: Parts, form: FormMultiDict) -> ApiKey:
    """Return the key that a form holds. Raises _Refused; who failed too often waits for either."""
    if not _is_from_here(request):
        raise _Refused(403, "FORBIDDEN", "This form came from another site. Sign in on this page", {})
    guess = (request.client.host if request.client else "", _typed(form, "public_key"))
    if not parts.brake.is_on(guess):
        return await _authenticated(parts, form, guess)
    if not parts.brake.enter(guess):
        raise _too_many(parts)
    try:
        await asyncio.sleep(parts.brake.delay_seconds)
        return await _authenticated(parts, form, guess)
    except _Refused as refused:
        raise _too_many(parts) from refused
    finally:
        parts.brake.leave(guess)


async def _authenticated(parts: Parts, form: FormMultiDict, guess: Guess) -> ApiKey:
    secret = Secret(_typed(form, "secret_key"))
    try:
        return await asyncio.to_thread(parts.projects.authenticate, guess[1], secret)
    except Unauthorized as error:
        parts.brake.fail(guess)
        problem = "This key is unknown, revoked, or its secret is wrong. 'ramet key create' makes another one"
        raise _Refused(401, error.code, problem, {}) from error


def _too_many(parts: Parts) -> _Refused:
    seconds = max(1, round(parts.brake.delay_seconds))
    problem = f"Too many failed attempts with this key: each one takes {seconds} seconds now"
    return _Refused(429, "TOO_MANY_ATTEMPTS", problem, {"Retry-After": str(seconds)})


def _is_from_here(request: AnyRequest) -> bool:
    """Tell whether a form was sent by one of our pages, or by a program: browsers say where a form comes from.

    They tell `Sec-Fetch-Site` over TLS and on this host; elsewhere the address in `Origin` has to be the one asked.
    """
    if site := request.headers.get("sec-fetch-site"):
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


def _typed(form: FormMultiDict, name: str) -> str:
    return str(form.get(name, "")).strip()[:_KEY_LIMIT]


def _entered(request: AnyRequest, parts: Parts, key: ApiKey, next_path: str) -> Response[str]:
    """Answer with a page that goes on by itself.

    A redirect would not do: coming from another site, it would be followed without the strict cookie just set.
    """
    token = parts.sessions.begin(key.public_key, parts.plane.clock())
    answer = page("signed_in.html", next_path=next_path)
    answer.set_cookie(
        COOKIE,
        token,
        path="/console",
        max_age=int(SESSION_LIFE.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


def _local(path: str) -> str:
    """Return where to go after signing in: a page of the console, whatever was asked for."""
    is_ours = path.startswith("/console/") and "\\" not in path and path.isprintable() and "//" not in path
    return path if is_ours else _HOME
