"""The HTTP application: routes, guards, limits and errors over the given verbs."""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ControllerRouterHandler, ExceptionHandlersMap

from ramet.api.auth import key_guard, recorder
from ramet.api.body import LIMIT_BYTES, ApiRequest
from ramet.api.errors import exception_handlers, on_http_exception
from ramet.api.listed import listed_service
from ramet.api.methods import Application, Observer
from ramet.api.openapi import document
from ramet.api.parameters import check_parameters
from ramet.api.responses import service_of_path
from ramet.api.routes.account import (
    get_auth_info,
    get_certificate_authority,
    get_project_limits,
    identify_user,
    list_projects,
    logout,
    track_event,
)
from ramet.api.routes.archive import archive_router
from ramet.api.routes.audit import audit_router
from ramet.api.routes.events import events_router
from ramet.api.routes.following import following_router
from ramet.api.routes.forks import forks_router
from ramet.api.routes.health import livez, readyz
from ramet.api.routes.imports import imports_router
from ramet.api.routes.insight import insight_router
from ramet.api.routes.keys import keys_router
from ramet.api.routes.life_spans import life_spans_router
from ramet.api.routes.logins import logins_router
from ramet.api.routes.logs import logs_router
from ramet.api.routes.metrics import metrics_router
from ramet.api.routes.moves import moves_router
from ramet.api.routes.operations import operations_router
from ramet.api.routes.poolers import poolers_router
from ramet.api.routes.replica_sets import replicas_router
from ramet.api.routes.replication import replication_router
from ramet.api.routes.restore import restore_router
from ramet.api.routes.restores import restores_router
from ramet.api.routes.services import services_router
from ramet.api.routes.settings import settings_router
from ramet.api.routes.upgrades import upgrades_router
from ramet.api.routes.vpcs import vpcs_router
from ramet.api.routes.warm_forks import warm_forks_router
from ramet.api.routes.webhooks import webhooks_router
from ramet.api.threads import own_threads
from ramet.control.listing import Listing
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.recording import Network, Recording
from ramet.control.waits import Waits
from ramet.endpoints import BASE_PATH
from ramet.events.stream import EventFeed
from ramet.model.keys import ApiKey

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]
Refusal = Callable[[Request[Any, Any, Any], HTTPException], Response[Any]]
RESOURCES: Sequence[ControllerRouterHandler] = (
    services_router,
    forks_router,
    imports_router,
    upgrades_router,
    following_router,
    moves_router,
    warm_forks_router,
    life_spans_router,
    restore_router,
    restores_router,
    archive_router,
    poolers_router,
    replicas_router,
    replication_router,
    vpcs_router,
    operations_router,
    audit_router,
    events_router,
    webhooks_router,
    logs_router,
    metrics_router,
    insight_router,
    settings_router,
    keys_router,
    logins_router,
    list_projects,
    get_project_limits,
    get_certificate_authority,
    get_auth_info,
    logout,
    identify_user,
    track_event,
)


def create_app(
    plane: Plane,
    projects: Projects,
    *,
    version: str,
    event_feed: EventFeed,
    beside: Sequence[ControllerRouterHandler] = (),
    refuse_beside: Refusal | None = None,
    observers: Sequence[Observer] = (),
    lifespan: Sequence[Lifespan] = (),
    trusted_proxies: Sequence[Network] = (),
    waits: Waits | None = None,
) -> Litestar:
    """Return the ASGI application over these verbs; `version` is what its openapi.json says.

    `beside` are further routes with their own errors; `refuse_beside` responds to what no route matches.
    `observers` observe each request; `lifespan` is entered in its event loop while it serves. The address of a client
    behind one of the `trusted_proxies` is the one that the proxy names. Streams of events end when the `event_feed` is
    closed, and requests wait no longer when `waits` is.
    """
    waiting = waits or Waits(plane)
    listing = Listing(listed_service)
    interface = Router(
        BASE_PATH,
        route_handlers=RESOURCES,
        guards=[key_guard(projects), check_parameters],
        dependencies={"plane": Provide(_plane_of(plane), sync_to_thread=False)},
        after_response=recorder(projects),
    )
    application = Application(
        route_handlers=[interface, _document_handler(version), livez, readyz, *beside],
        dependencies={
            "plane": Provide(lambda: plane, use_cache=True, sync_to_thread=False),
            "projects": Provide(lambda: projects, use_cache=True, sync_to_thread=False),
            "event_feed": Provide(lambda: event_feed, use_cache=True, sync_to_thread=False),
            "listing": Provide(lambda: listing, use_cache=True, sync_to_thread=False),
            "waits": Provide(lambda: waiting, use_cache=True, sync_to_thread=False),
            "at": Provide(service_of_path, sync_to_thread=False),
        },
        exception_handlers=_by_place(exception_handlers(), refuse_beside),
        request_class=ApiRequest,
        request_max_body_size=LIMIT_BYTES,
        openapi_config=None,
        logging_config=None,
        lifespan=[own_threads(plane), *lifespan],
    )
    application.observers = observers
    application.heads_below = BASE_PATH
    application.recording = Recording(plane, BASE_PATH, trusted_proxies)
    return application


def _plane_of(plane: Plane) -> Callable[[Request[Any, ApiKey, Any]], Plane]:
    """Return what provides handlers with the verbs as the key of their request may use them."""

    def provide(request: Request[Any, ApiKey, Any]) -> Plane:
        return plane.on_behalf_of(request.auth)

    return provide


def _by_place(handlers: ExceptionHandlersMap, refuse_beside: Refusal | None) -> ExceptionHandlersMap:
    """Return the handlers; what no route matches is refused by the side that the path belongs to."""
    if refuse_beside is None:
        return handlers

    def choose(request: Request[Any, Any, Any], exception: HTTPException) -> Response[Any]:
        is_ours = request.url.path.startswith(BASE_PATH)
        return (
            on_http_exception(request, exception)
            if is_ours or _wants_json(request)
            else refuse_beside(request, exception)
        )

    return {**handlers, HTTPException: choose}


def _wants_json(request: Request[Any, Any, Any]) -> bool:
    """Tell a program, which accepts JSON, from a browser, which names HTML too."""
    accepted = request.headers.get("accept", "")
    return "json" in accepted and "text/html" not in accepted


@functools.cache
def openapi_json(version: str) -> bytes:
    """Return openapi.json as it is served and checked in. It is made once, when it is first read."""
    made = msgspec.json.encode(document(RESOURCES, BASE_PATH, version))
    return msgspec.json.format(made, indent=2) + b"\n"


def _document_handler(version: str) -> HTTPRouteHandler:
    """Return the handler of the document, which needs no credentials."""

    @get(f"{BASE_PATH}/openapi.json", sync_to_thread=True)
    def openapi() -> Response[bytes]:
        return Response(openapi_json(version), media_type=MediaType.JSON)

    return openapi
