"""What all routes share: responses encoded once, and the verbs as dependencies."""

from typing import Any

import msgspec
from litestar import MediaType, Response
from litestar.di import NamedDependency
from litestar.params import SkipValidation

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
