"""The HTTP responses to errors: their statuses, their one form, and what is logged.

Any other exception becomes 500 INTERNAL with a reference; its traceback goes to the log only.
"""

import logging
from collections.abc import Mapping
from typing import Any

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from ramet import acting
from ramet.api.parameters import invalid_parameter, query_parameters
from ramet.api.schemas.shared import ErrorBody
from ramet.errors import (
    Error,
    Exhausted,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    WrongState,
)
from ramet.ids import new_id

POLLED = "polled"
"""Handlers with this option never answer 503: clients that poll them give up on it (docs/compatibility.md, rule 4)."""
REFUSES = "refuses"
"""Handlers with this option may answer 400 although they only read and take no parameters."""

_log = logging.getLogger(__name__)
_STATUSES: Mapping[type[Error], int] = {
    Invalid: 400,
    WrongState: 400,
    Exhausted: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    TooLarge: 413,
    Unavailable: 503,
}
_CHALLENGE = 'Basic realm="ramet", charset="UTF-8"'
_RETRY_SECONDS = "1"
_SHOWN_CHARACTERS = 200


def exception_handlers() -> ExceptionHandlersMap:
    """Return the handlers that cover every exception of the HTTP edge."""
    return {Error: _on_error, HTTPException: on_http_exception, Exception: _on_fault}


def _on_error(request: Request[Any, Any, Any], error: Error) -> Response[ErrorBody]:
    status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), None)
    if status is None:
        return _on_fault(request, error)
    body = _body(error)
    if status == 503:
        _log.warning("%s %s: %s", request.method, request.url.path, error)
        return _unavailable(request, body)
    return _answer(status, body, {"WWW-Authenticate": _CHALLENGE} if status == 401 else {})


def _unavailable(request: Request[Any, Any, Any], body: ErrorBody) -> Response[ErrorBody]:
    if request.route_handler.opt.get(POLLED):
        return _answer(500, body)
    return _answer(503, body, {"Retry-After": _RETRY_SECONDS})


def on_http_exception(request: Request[Any, Any, Any], exception: HTTPException) -> Response[ErrorBody]:
    """Respond to what Litestar refuses, with an ErrorBody."""
    if exception.status_code >= 500:
        return _on_fault(request, exception)
    headers = {name: value for name, value in (exception.headers or {}).items() if name.lower() == "allow"}
    return _answer(exception.status_code, _body(_refusal(request, exception)), headers)


def _body(error: Error) -> ErrorBody:
    acting.note_error(error.code)
    return ErrorBody(error.code, error.message, error.details)


def _refusal(request: Request[Any, Any, Any], exception: HTTPException) -> Error:
    path = request.url.path[:_SHOWN_CHARACTERS]
    match exception.status_code:
        case 404:
            return Error("NOT_FOUND", "No such endpoint", f"{request.method} {path}")
        case 405:
            allowed = (exception.headers or {}).get("allow", "")
            message = f"{request.method} is not a method of {path}"
            return Error("METHOD_NOT_ALLOWED", message, f"Allowed are {allowed}." if allowed else "")
        case 413:
            return Error("BODY_TOO_LARGE", "The body is larger than 1 MiB", "Send a smaller one.")
        case 415:
            return Error("UNSUPPORTED_MEDIA_TYPE", exception.detail)
        case _ if isinstance(exception, ValidationException) and (argument := _refused_argument(exception)):
            definition = query_parameters(request.route_handler)[argument]
            return invalid_parameter(definition, request.query_params.getall(definition.name or argument, []))
        case _ if isinstance(exception, ValidationException):
            return Error("INVALID_JSON", "The body is empty", "Send one JSON object.")
        case _:
            return Error("INVALID_REQUEST", exception.detail)


def _refused_argument(exception: ValidationException) -> str:
    """Return the argument of the handler whose query parameter was refused; "" when it was not that."""
    refused = exception.extra if isinstance(exception.extra, list) else []
    return next((str(one["key"]) for one in refused if one.get("source") == "query"), "")


def _on_fault(request: Request[Any, Any, Any], fault: Exception) -> Response[ErrorBody]:
    reference = new_id()
    acting.note_error("INTERNAL")
    _log.error("%s %s failed, reference %s", request.method, request.url.path, reference, exc_info=fault)
    message = "Internal error; the server's log contains the reason"
    return _answer(500, ErrorBody("INTERNAL", message, f"reference {reference}"))


def _answer(status: int, body: ErrorBody, headers: Mapping[str, str] | None = None) -> Response[ErrorBody]:
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=dict(headers or {}))
