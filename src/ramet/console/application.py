"""The console as a whole: its routes over a control plane, ready to be mounted beside the HTTP interface."""

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

from ramet.console.auth.csrf import CsrfTokens
from ramet.console.auth.throttle import SignInThrottle
from ramet.console.context import AnyRequest, ConsoleContext, dependencies, read
from ramet.console.error_pages import FORM_BYTES, exception_handlers, on_http_exception
from ramet.console.live.change_feed import ChangeFeed
from ramet.console.pages import handlers
from ramet.console.pages.sign_in import LINKS
from ramet.console.rendering import redirect
from ramet.console.static_files import other_version, static_files_router
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.control.sessions import Sessions
from ramet.control.sign_in_links import SignInLinks

PATH = "/console"
# Pages with secrets are compressed although they reflect the query: the BREACH attack needs requests that carry the
# cookie, and SameSite=Strict withholds it from other sites. Events must reach the page at once, so they are not.
_COMPRESSION = CompressionConfig("gzip", gzip_compress_level=5, exclude=r"/console/events$")


@dataclass(frozen=True)
class Console:
    """The console of a process, over what its handlers work with."""

    context: ConsoleContext

    def routes(self) -> tuple[ControllerRouterHandler, ...]:
        """Return the routes to mount beside the HTTP interface."""
        router = Router(
            PATH,
            route_handlers=[*handlers(), other_version, static_files_router()],
            dependencies=dependencies(self.context),
            exception_handlers=exception_handlers(),
            middleware=[DefineMiddleware(CompressionMiddleware, config=_COMPRESSION)],
            request_class=Request,
            request_max_body_size=FORM_BYTES,
            include_in_schema=False,
        )
        return router, home

    def refuse(self, request: AnyRequest, exception: HTTPException) -> Response[str]:
        """Answer a request that matches no route."""
        return on_http_exception(request, exception)

    def make_link(self, public_key: str) -> str:
        """Return a path that signs in once, with this key. Raises Unauthorized."""
        return f"{LINKS}/{self.context.links.make(self.context.projects.active_key(public_key))}"

    def close(self) -> None:
        """End the streams of open pages."""
        self.context.feed.close()


def open_console(
    plane: Plane, projects: Projects, root_key: bytes, openapi: Callable[[], Mapping[str, Any]]
) -> Console:
    """Return the console of a control plane. CSRF tokens are made with a key derived from `root_key`.

    `openapi` returns the description of the HTTP interface; it is called when the reference is first read.
    """
    return Console(
        ConsoleContext(
            plane,
            projects,
            Sessions(plane.store),
            CsrfTokens(root_key),
            SignInLinks(plane.store, plane.clock),
            SignInThrottle(),
            ChangeFeed(plane),
            cache(lambda: _reference(openapi())),
        )
    )


def _reference(openapi: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (method.upper(), path, operation.get("summary", ""))
        for path, methods in openapi.get("paths", {}).items()
        for method, operation in methods.items()
    ]


@read("/", sync_to_thread=False)
def home() -> Response[None]:
    """Redirect from the root of the server to the console."""
    return redirect(f"{PATH}/", 307)
