"""HEAD, which is answered like GET, and OPTIONS, which names the methods of a path."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litestar import Litestar
from litestar.types import Message, Send

from ramet.api.parsed_heads import forget_long_head
from ramet.control.recording import Recording

Observer = Callable[[Any], Callable[[int], None]]
"""Gets the scope of a request; what it returns gets the status when the response begins, and 0 at its end."""


class Application(Litestar):
    """A Litestar application whose paths below `heads_below` answer HEAD, and all of whose paths answer OPTIONS.

    Litestar's own OPTIONS names the methods of one of the handlers of a path only.
    """

    heads_below: str
    observers: Sequence[Observer]
    recording: Recording
    _methods: Mapping[str, set[str]] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope.get("method") == "HEAD" and self._answers_head(scope["path"]):
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        elif scope.get("method") == "OPTIONS":
            send = self._naming_methods(scope, send)
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        begun = [observer(scope) for observer in self.observers]
        try:
            await self.recording.record(super().__call__, scope, receive, _reporting(send, begun))
        finally:
            _tell(begun, 0)
            forget_long_head(self, scope)

    def _answers_head(self, path: str) -> bool:
        return path.startswith(self.heads_below)

    def _naming_methods(self, scope: Any, send: Send) -> Send:
        async def naming(message: Message) -> None:
            template = scope.get("path_template", "")
            if message["type"] == "http.response.start" and template in self._methods_by_path():
                kept = [(name, value) for name, value in message["headers"] if name.lower() != b"allow"]
                message["headers"] = [*kept, (b"allow", ", ".join(self._methods_of(template)).encode())]
            await send(message)

        return naming

    def _methods_of(self, template: str) -> list[str]:
        methods = self._methods_by_path()[template]
        has_head = "GET" in methods and self._answers_head(template)
        return sorted({*methods, *(["HEAD"] if has_head else [])})

    def _methods_by_path(self) -> Mapping[str, set[str]]:
        if self._methods is None:
            self._methods = {
                route.path_format: set(route.methods) for route in self.routes if hasattr(route, "methods")
            }
        return self._methods


def _tell(observers: Sequence[Callable[[int], None]], status: int) -> None:
    for observer in reversed(observers):
        observer(status)


def _reporting(send: Send, observers: Sequence[Callable[[int], None]]) -> Send:
    async def reporting(message: Message) -> None:
        if message["type"] == "http.response.start":
            _tell(observers, message["status"])
        await send(message)

    return reporting


def _without_body(send: Send) -> Send:
    """Return what sends the head of a response and its end: a stream has no end of its own."""

    async def heads_only(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return heads_only
