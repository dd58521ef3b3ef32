"""The server of the tools: over standard input and output, or over HTTP on loopback."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from ramet import __version__
from ramet.errors import Error
from ramet.kits.mcp.callers import Callers, is_refused
from ramet.kits.mcp.checked_tool import CheckedTool
from ramet.kits.mcp.tools import Tools, as_called

PATH = "/mcp"
_CHECKS_AT_ONCE = 10
_INSTRUCTIONS = (
    "Ramet runs PostgreSQL services and forks them: a fork is a database server of its own with the data of another"
    " one, made in a second or so, and deleted by itself. Before you change data or a schema, fork the service and work"
    " in the fork. Read with query; write with execute, in your fork. checkpoint and rewind undo steps that"
    " went wrong. Delete the fork when you are done."
)
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_MAKES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_REMOVES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def build_server(callers: Callers) -> MCPServer:
    """Return a server with the tools, which act on behalf of these callers."""
    tools = Tools(callers)
    kinds: tuple[tuple[ToolAnnotations, tuple[Callable[..., Any], ...]], ...] = (
        (_READS, (tools.list_services, tools.wait, tools.query, tools.schema, tools.window, tools.report)),
        (_MAKES, (tools.fork, tools.checkpoint, tools.connection)),
        (_REMOVES, (tools.execute, tools.rewind, tools.delete_fork)),
    )
    return MCPServer(
        "ramet",
        title="Ramet",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        tools=[
            CheckedTool.from_function(as_called(tool, callers), annotations=annotations)
            for annotations, found in kinds
            for tool in found
        ],
    )


def http_application(callers: Callers) -> Application:
    """Return the server as an ASGI application, where each request carries the key of its caller."""
    # Without sessions nothing outlives a request: a key acts for those requests alone that carry it.
    application = build_server(callers).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True
    )

    checks = anyio.CapacityLimiter(_CHECKS_AT_ONCE)  # of their own: the threads of the tools may all be in use

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            try:
                await anyio.to_thread.run_sync(callers, headers, limiter=checks)
            except Error as error:
                await _refuse(send, error)
                return
        await application(scope, receive, send)

    return guarded


async def _refuse(send: Send, error: Error) -> None:
    status = 401 if is_refused(error) else 502
    body = json.dumps({"code": error.code, "message": error.message, "details": error.details}).encode()
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
