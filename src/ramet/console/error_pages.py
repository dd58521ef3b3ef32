"""Errors as pages: requests without a session are redirected to the sign-in page, all others say what is wrong."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from ramet import acting
from ramet.console.auth.cookies import SESSION, delete_sessions
from ramet.console.auth.csrf import FORM_EXPIRED
from ramet.console.context import CURRENT, AnyRequest, CurrentSession, SignedOut
from ramet.console.rendering import htmx_redirect, page, redirect
from ramet.control.services import get_service
from ramet.errors import (
    Error,
    Exhausted,
    Failed,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    WrongState,
)
from ramet.ids import new_id
from ramet.model.session import Session

SIGN_OUT = "/console/sign-out"
FORM_BYTES = 64 * 1024
_log = logging.getLogger(__name__)
_STATUSES: Mapping[type[Error], int] = {
    Invalid: 400,
    WrongState: 409,
    Exhausted: 409,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    TooLarge: 413,
    Unavailable: 503,
}
_TITLES = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible now",
    413: "Too large",
    503: "Temporarily unavailable",
}
_SENTENCES = {
    404: "There is no page at this address",
    405: "This address does not accept this method",
    413: f"The form is larger than {FORM_BYTES // 1024} KiB, which is the most that the server accepts",
}


def exception_handlers() -> ExceptionHandlersMap:
    """Return the handlers that cover every exception of a page."""
    return {SignedOut: _on_signed_out, Error: _on_error, HTTPException: on_http_exception, Exception: _on_fault}


def status_for(error: Error) -> int:
    """Return the HTTP status of an error page; 500 for errors that the user did not cause."""
    acting.note_error(error.code)
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 500)


def form_status(error: Error) -> int:
    """Return the HTTP status of a form that is shown again because of an error; raises errors with status 500."""
    status = status_for(error)
    if status == 500:
        raise error
    return 422 if status == 400 else status


def _on_signed_out(request: AnyRequest, error: SignedOut) -> Response[None]:
    if not error.has_ended_others:
        acting.note_error("SIGNED_OUT")
    is_part = request.headers.get("hx-request") == "true"
    address = f"/console/sign-in{_next(request, is_part)}"
    answer = htmx_redirect(address, 401) if is_part else redirect(address)
    if request.url.path == SIGN_OUT:
        delete_sessions(answer)
    return answer


def _next(request: AnyRequest, is_part: bool) -> str:
    """Return the query of the sign-in page: the page to return to, and whether a session has ended.

    The page is the one requested, or the one that requested a part of itself. A form, a part of a page, or a cookie can
    come only from a session, which therefore has ended.
    """
    wanted = ""
    with suppress(ValueError):  # such as an address whose brackets do not match
        asked = urlsplit(request.headers.get("hx-current-url", "") if is_part else str(request.url))
        wanted = f"{asked.path}?{asked.query}" if asked.query else asked.path
    leads = wanted.startswith("/console/") and wanted not in ("/console/", SIGN_OUT)
    ended = is_part or request.method == "POST" or SESSION in request.cookies
    query = urlencode(({"next": wanted} if leads else {}) | ({"ended": "yes"} if ended else {}), safe="/")
    return f"?{query}" if query else ""


def _on_error(request: AnyRequest, error: Error) -> Response[str]:
    status = status_for(error)
    if isinstance(error, Failed):
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return page("error.html", title="This failed", error=error, status_code=500)
    if status == 500:
        return _on_fault(request, error)
    form_path = request.url.path if error.code == FORM_EXPIRED and request.url.path != SIGN_OUT else ""
    session = request.scope["state"].get(CURRENT) if status < 500 else None
    return page(
        "error.html",
        session,
        title=_title(status),
        error=error,
        form_path=form_path,
        holder=_holder(request, session, error),
        status_code=status,
    )


def _holder(request: AnyRequest, session: CurrentSession | None, error: Error) -> Session | None:
    """Return the session of another project that has the service of a page which this one has not."""
    if session is None or error.code != "SERVICE_NOT_FOUND":
        return None
    for one in session.others:
        with suppress(Error):
            plane = session.context.plane.on_behalf_of(one.key)
            get_service(plane, one.project_id, str(request.path_params.get("service_id", "")))
            return one
    return None


def on_http_exception(request: AnyRequest, exception: HTTPException) -> Response[str]:
    """Answer a request that Litestar refuses with a page."""
    status = exception.status_code
    if status >= 500:
        return _on_fault(request, exception)
    acting.note_error("HTTP")
    sentence = _SENTENCES.get(status, "The server cannot process this request")
    answer = page("error.html", title=_title(status), error=Error("HTTP", sentence), status_code=status)
    answer.headers.update({name: value for name, value in (exception.headers or {}).items() if name.lower() == "allow"})
    return answer


def _on_fault(request: AnyRequest, fault: Exception) -> Response[str]:
    reference = new_id()
    acting.note_error("INTERNAL")
    _log.error("%s %s failed, reference %s", request.method, request.url.path, reference, exc_info=fault)
    error = Error("INTERNAL", "An internal error occurred; the server's log has the reason", f"Reference {reference}.")
    return page("error.html", title="Internal error", error=error, status_code=500)


def _title(status: int) -> str:
    return _TITLES.get(status, "Invalid request")
