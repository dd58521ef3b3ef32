"""The console put together: its routes over the verbs that it is given, ready to be mounted beside the interface."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from litestar import Request, Response, Router
from litestar.config.compression import CompressionConfig
from litestar.exceptions import HTTPException
from litestar.middleware import DefineMiddleware
from litestar.middleware.compression import CompressionMiddleware
from litestar.types import ControllerRouterHandler

from ramet.console import static_files
from ramet.console.auth import sign_in
from ramet.console.auth.browser_secrets import Brake, FormMarks, Links
from ramet.console.context import AnyRequest, Entry, Parts, dependencies, read
from ramet.console.error_pages import exception_handlers, on_http_exception
from ramet.console.live import events
from ramet.console.live.change_feed import Pulses
from ramet.console.pages import (
    fork_report,
    forks,
    help,
    lineage,
    metrics,
    operations,
    replica_sets,
    service,
    service_changes,
    services,
    snapshots,
)
from ramet.console.views.disk_usage import Spaces
from ramet.console.views.rendering import HEADERS
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.sessions import Sessions

PATH = "/console"
_FORM_BYTES = 64 * 1024
# Compressed pages hold secrets beside what the address says; only that the cookie is SameSite=Strict keeps other sites
# from asking for them again and again to measure what they guess. The stream's events must not wait for each other.
_COMPRESSION = CompressionConfig("gzip", gzip_compress_level=5, exclude=r"/console/events$")
_PAGES = (
    static_files.static_file,
    sign_in.sign_in_page,
    sign_in.sign_in,
    sign_in.make_link,
    sign_in.enter,
    sign_in.sign_out,
    services.list_page,
    lineage.lineage_page,
    help.help_page,
    events.events,
    forks.create_page,
    forks.create,
    forks.fork_page,
    forks.fork_preview,
    forks.fork,
    service.service_page,
    fork_report.report_page,
    operations.operations_page,
    replica_sets.replica_page,
    replica_sets.replica_change_page,
    replica_sets.replica_change,
    snapshots.snapshots_page,
    snapshots.snapshot_page,
    snapshots.delete_snapshot,
    metrics.metrics_page,
    metrics.logs_page,
    service_changes.change_page,
    service_changes.change,
)


@dataclass(frozen=True)
class Console:
    """The console of this process: what to mount, and links that sign in once. `close` lets its streams end.

    `refuse` answers what no route of it takes.
    """

    routes: tuple[ControllerRouterHandler, ...]
    refuse: Callable[[AnyRequest, HTTPException], Response[str]]
    make_link: Callable[[str], str]
    close: Callable[[], None]


def open_console(
    plane: Plane, projects: Projects, root_key: bytes, openapi: Callable[[], Mapping[str, Any]]
) -> Console:
    """Return the console over these verbs; forms are marked with a key derived from `root_key`.

    `openapi` gives the description of the HTTP interface, for its reference; it is asked when someone reads that.
    """
    parts = Parts(
        plane,
        projects,
        Sessions(plane.store),
        FormMarks(root_key),
        Links(),
        Brake(),
        Pulses(plane),
        Spaces(plane),
        cache(lambda: _reference(openapi())),
    )
    router = Router(
        PATH,
        route_handlers=_PAGES,
        dependencies=dependencies(parts),
        exception_handlers=exception_handlers(),
        middleware=[DefineMiddleware(CompressionMiddleware, config=_COMPRESSION)],
        request_class=Request,
        request_max_body_size=_FORM_BYTES,
        include_in_schema=False,
    )
    return Console(
        (router, home),
        on_http_exception,
        lambda public_key: f"{sign_in.LINKS}/{parts.links.make(public_key)}",
        parts.pulses.close,
    )


def _reference(openapi: Mapping[str, Any]) -> list[Entry]:
    return [
        Entry(method.upper(), path, operation.get("summary", ""))
        for path, methods in openapi.get("paths", {}).items()
        for method, operation in methods.items()
    ]


@read("/", sync_to_thread=False)
def home() -> Response[None]:
    """Lead whoever opens the bare address to the console."""
    return Response(None, status_code=307, headers={**HEADERS, "Location": f"{PATH}/"})
