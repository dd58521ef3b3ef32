"""What all routes share: responses encoded once, the verbs as dependencies, and the decorators of handlers.

Handlers that only read the store run on the event loop, all others in a thread: docs/decisions/0006-list-handler.md.
"""

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import MediaType, Response, Router, delete, get, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import SkipValidation

from ramet.api.parameters import ProjectId, ServiceId
from ramet.control.listing import Listing
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.waits import Waits


class ServiceOfPath(NamedTuple):
    """The control plane, and the service that the path of a request names: what the verbs over a service begin with."""

    plane: Plane
    project_id: str
    service_id: str


PlaneDependency = NamedDependency[SkipValidation[Plane]]
ServicePath = NamedDependency[SkipValidation[ServiceOfPath]]
ListingDependency = NamedDependency[SkipValidation[Listing[Any]]]
WaitsDependency = NamedDependency[SkipValidation[Waits]]
ProjectVerbs = NamedDependency[SkipValidation[Projects]]

read = partial(get, sync_to_thread=False)
read_or_wait = get
read_in_thread = partial(get, sync_to_thread=True)
change = partial(post, sync_to_thread=True, status_code=200)
update = partial(put, sync_to_thread=True)
accept = partial(post, sync_to_thread=True, status_code=202)
create = partial(post, sync_to_thread=True, status_code=201)
remove = partial(delete, sync_to_thread=True, status_code=204)
accept_deletion = partial(delete, sync_to_thread=True, status_code=202)

OF_PROJECT = "/projects/{project_id:str}"
OF_SERVICE = f"{OF_PROJECT}/services/{{service_id:str}}"
_ENCODER = msgspec.json.Encoder()
_HEADERS = {"Cache-Control": "no-store"}


def service_of_path(plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId) -> ServiceOfPath:
    """Provide what handlers call `at`."""
    return ServiceOfPath(plane, project_id, service_id)


def router_of(module: str, tag: str | None = None, path: str = OF_SERVICE) -> Router:
    """Return the router of all handlers in a module, in their order there."""
    found = [one for one in vars(sys.modules[module]).values() if isinstance(one, HTTPRouteHandler)]
    return Router(path, route_handlers=found, tags=[tag] if tag else None)


def answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response[Any]:
    """Return a JSON answer that no cache keeps. Encoding happens here, in the thread of the caller; bytes are JSON."""
    sent = {**_HEADERS, **headers} if headers else _HEADERS
    content = body if isinstance(body, bytes) else _ENCODER.encode(body)
    return Response(content, status_code=status, media_type=MediaType.JSON, headers=sent)


def link_to_next(**query: str | int | list[str] | None) -> dict[str, str]:
    """Return the header that leads to the next page of the same list, by the query of its address alone."""
    sent = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
    return {"Link": f'<?{sent}>; rel="next"'}


def empty(status: int) -> Response[None]:
    """Return an answer without a body; it must not call itself JSON, or clients try to decode nothing."""
    bodiless: Response[Any] = Response(b"", status_code=status, media_type=MediaType.TEXT, headers=_HEADERS)
    return bodiless
