"""What all resource modules share: answers encoded once, the verbs as dependencies, and how errors are documented."""

from typing import Any

import msgspec
from litestar import MediaType, Response
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import SkipValidation

from ramet.api.schemas.shared import ErrorBody
from ramet.control.plane import Plane
from ramet.control.projects import Projects

PlaneDependency = NamedDependency[SkipValidation[Plane]]
ProjectVerbs = NamedDependency[SkipValidation[Projects]]

_ENCODER = msgspec.json.Encoder()
_HEADERS = {"Cache-Control": "no-store"}


def answer(body: object, status: int = 200) -> Response[Any]:
    """Return a JSON answer that no cache keeps. Encoding happens here, in the thread of the caller."""
    return Response(_ENCODER.encode(body), status_code=status, media_type=MediaType.JSON, headers=_HEADERS)


def empty(status: int) -> Response[None]:
    """Return an answer without a body; it must not call itself JSON, or clients try to decode nothing."""
    bodiless: Response[Any] = Response(b"", status_code=status, media_type=MediaType.TEXT, headers=_HEADERS)
    return bodiless


def errors(*statuses: int, polled: bool = False) -> dict[int, ResponseSpec]:
    """Return the documentation of the errors with these statuses, and of those that every operation may have.

    One that clients poll has no 503.
    """
    common = {401, 500} if polled else {401, 500, 503}
    return {status: _ERRORS[status] for status in sorted({*common, *statuses})}


def _documented(description: str, code: str, message: str, details: str = "") -> ResponseSpec:
    example = Example(id="example", value=msgspec.to_builtins(ErrorBody(code, message, details)))
    return ResponseSpec(ErrorBody, generate_examples=False, description=description, examples=[example])


_ERRORS = {
    400: _documented(
        "The request cannot succeed as it stands, or the service is in a state that does not allow it.",
        "TARGET_TIME_REQUIRED",
        "fork_strategy PITR needs target_time, and it is missing",
        "Send target_time as RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
    ),
    401: _documented(
        "No API key, or one that is unknown or revoked.",
        "UNAUTHORIZED",
        "The API key is unknown, revoked, or its secret is wrong",
    ),
    403: _documented(
        "The API key does not open this project.", "FORBIDDEN", "This API key does not open project 'rp1pz7uyae'"
    ),
    404: _documented(
        "No such service.", "SERVICE_NOT_FOUND", "no service with that id exists", "service_id 'd1k5vk7hf2'"
    ),
    413: _documented("The body is too large.", "BODY_TOO_LARGE", "The body is larger than 1 MiB"),
    415: _documented("The body is no JSON.", "UNSUPPORTED_MEDIA_TYPE", "Content-Type 'text/plain' is not understood"),
    500: _documented("A fault of the server.", "INTERNAL", "Something went wrong inside the server"),
    503: _documented("Try again soon; see Retry-After.", "STORE_UNAVAILABLE", "The store cannot be reached now"),
}
