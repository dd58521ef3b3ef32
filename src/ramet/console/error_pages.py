"""Errors to pages: who is signed out goes to the sign-in page, everybody else is told what is wrong and what to do."""

import logging
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from ramet.console.auth.browser_secrets import COOKIE
from ramet.console.context import FORM_EXPIRED, AnyRequest, SignedOut
from ramet.console.views.rendering import HEADERS, page
from ramet.errors import Error, Exhausted, Failed, Forbidden, Invalid, NotFound, TooLarge, Unavailable, WrongState
from ramet.ids import new_id

SIGN_OUT = "/console/sign-out"
_log = logging.getLogger(__name__)
_STATUSES: Mapping[type[Error], int] = {
    Invalid: 400,
    WrongState: 409,
    Exhausted: 409,
    Forbidden: 403,
    NotFound: 404,
    TooLarge: 413,
    Unavailable: 503,
}


def exception_handlers() -> ExceptionHandlersMap:
    """Return the handlers that cover every exception of a page."""
    return {SignedOut: _on_signed_out, Error: _on_error, HTTPException: on_http_exception, Exception: _on_fault}


def status_for(error: Error) -> int:
    """Return the HTTP status of an error that a page shows; 500 for those that are no fault of the viewer."""
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 500)


def form_status(error: Error) -> int:
    """Return the HTTP status of a form that is shown again because of an error; raises those that are a fault."""
    status = status_for(error)
    if status == 500:
        raise error
    return 422 if status == 400 else status


def _on_signed_out(request: AnyRequest, _: SignedOut) -> Response[None]:
    is_part = request.headers.get("hx-request") == "true"
    address = f"/console/sign-in{_next(request, is_part)}"
    if is_part:
        return Response(None, status_code=401, headers={**HEADERS, "HX-Redirect": address})
    return Response(None, status_code=303, headers={**HEADERS, "Location": address})


def _next(request: AnyRequest, is_part: bool) -> str:
    """Return the query that leads back: to the page itself, or to the one that asked for a part of it.

    It tells that a session ended where there was one: a form, a part of a page, or a cookie came from it.
    """
    asked = urlsplit(request.headers.get("hx-current-url", "") if is_part else str(request.url))
    wanted = f"{asked.path}?{asked.query}" if asked.query else asked.path
    leads = wanted.startswith("/console/") and wanted not in ("/console/", SIGN_OUT)
    ended = is_part or request.method == "POST" or COOKIE in request.cookies
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
    return page("error.html", title=_title(status), error=error, form_path=form_path, status_code=status)


def on_http_exception(request: AnyRequest, exception: HTTPException) -> Response[str]:
    """Answer what the framework refuses with a page."""
    if exception.status_code >= 500:
        return _on_fault(request, exception)
    title = _title(exception.status_code)
    answer = page("error.html", title=title, error=Error("HTTP", title), status_code=exception.status_code)
    answer.headers.update({name: value for name, value in (exception.headers or {}).items() if name.lower() == "allow"})
    return answer


def _on_fault(request: AnyRequest, fault: Exception) -> Response[str]:
    reference = new_id()
    _log.error("%s %s failed, reference %s", request.method, request.url.path, reference, exc_info=fault)
    error = Error(
        "INTERNAL", "Something went wrong inside the server; its log has the reason", f"Reference {reference}."
    )
    return page("error.html", title="Something went wrong", error=error, status_code=500)


def _title(status: int) -> str:
    titles = {404: "There is nothing here", 403: "Not allowed", 409: "Not possible now", 503: "Try again shortly"}
    return titles.get(status, "This cannot be done")
