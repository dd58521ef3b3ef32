"""Signing in with an API key or by a link that works once, and signing out."""

import time
from collections.abc import Mapping

from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath

from ramet.console.pages import HEADERS, page
from ramet.console.parts import AnyRequest, ConsoleParts, Fields, Parts, SignedIn
from ramet.console.session import COOKIE, SESSION_SECONDS, new_session
from ramet.errors import Unauthorized
from ramet.model.credentials import Secret
from ramet.model.project import ApiKey

LINKS = "/console/enter"
_HOME = "/console/"
_KEY_LIMIT = 200


@get("/sign-in", sync_to_thread=False)
def sign_in_page(request: AnyRequest) -> Response[str]:
    """Show the form; `next` in the query says where to go afterwards."""
    wanted = str(request.query_params.get("next", _HOME))
    return page("sign_in.html", next_path=_local(wanted), problem=None, public_key="")


@post("/sign-in", status_code=200)
async def sign_in(request: AnyRequest, parts: ConsoleParts) -> Response[str]:
    """Open a session for the holder of a key. Addresses that guess too often have to wait."""
    form = await request.form()
    next_path = _local(str(form.get("next", _HOME)))
    try:
        return _entered(request, parts, _opened(request, parts, form), next_path)
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
        key = _opened(request, parts, form)
    except _Refused as refused:
        body = {"code": refused.code, "message": refused.problem}
        return Response(body, status_code=refused.status, headers={**HEADERS, **refused.headers})
    return Response({"path": f"{LINKS}/{parts.links.make(key.public_key)}"}, headers=dict(HEADERS))


@get("/enter/{token:str}", sync_to_thread=True)
def enter(request: AnyRequest, parts: ConsoleParts, token: FromPath[str]) -> Response[str]:
    """Open a session by a link; the link is used up then."""
    public_key = parts.links.use(token)
    if public_key is None:
        problem = "This link has been used, or is too old. 'ramet console' prints a new one; or sign in with a key."
        return page("sign_in.html", next_path=_HOME, problem=problem, public_key="", status_code=410)
    return _entered(request, parts, parts.projects.active_key(public_key), _HOME)


@post("/sign-out", status_code=303)
async def sign_out(session: SignedIn, fields: Fields) -> Response[None]:
    """Forget the session."""
    answer: Response[None] = Response(None, status_code=303, headers={**HEADERS, "Location": "/console/sign-in"})
    answer.delete_cookie(COOKIE, path="/console")
    return answer


class _Refused(Exception):
    """Nobody is signed in: why, and what that is in HTTP."""

    def __init__(self, status: int, code: str, problem: str, headers: Mapping[str, str]) -> None:
        super().__init__(problem)
        self.status, self.code, self.problem, self.headers = status, code, problem, headers


def _opened(request: AnyRequest, parts: Parts, form: FormMultiDict) -> ApiKey:
    """Return the key that a form holds. Raises _Refused, also for addresses that failed too often."""
    address = request.client.host if request.client else ""
    if waiting := parts.attempts.wait_seconds(address):
        problem = f"Too many failed attempts. Try again in {waiting} seconds."
        raise _Refused(429, "TOO_MANY_ATTEMPTS", problem, {"Retry-After": str(waiting)})
    try:
        return parts.projects.authenticate(_typed(form, "public_key"), Secret(_typed(form, "secret_key")))
    except Unauthorized as error:
        parts.attempts.fail(address)
        problem = "This key is unknown, revoked, or its secret is wrong. 'ramet key create' makes another one."
        raise _Refused(401, error.code, problem, {}) from error


def _typed(form: FormMultiDict, name: str) -> str:
    return str(form.get(name, "")).strip()[:_KEY_LIMIT]


def _entered(request: AnyRequest, parts: Parts, key: ApiKey, next_path: str) -> Response[str]:
    """Answer with a page that goes on by itself.

    A redirect would not do: coming from another site, it would be followed without the strict cookie just set.
    """
    session = new_session(key, parts.projects.get_project(key.project_id), time.time())
    answer = page("entered.html", next_path=next_path)
    answer.set_cookie(
        COOKIE,
        parts.sealer.seal(session),
        path="/console",
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


def _local(path: str) -> str:
    """Return where to go after signing in: a page of the console, whatever was asked for."""
    is_ours = path.startswith("/console/") and "\\" not in path and path.isprintable() and "//" not in path
    return path if is_ours else _HOME
