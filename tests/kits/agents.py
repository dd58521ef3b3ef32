"""An agent for tests: it calls the tools of `ramet mcp` with the client of the SDK."""

from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent, Tool

Answer = dict[str, Any]


class Refused(Exception):
    """A tool said that it did not do it."""


@dataclass(frozen=True)
class Agent:
    """Calls one tool after the other. `server` is one in this process, or a URL, with the key to send there."""

    server: MCPServer | str
    key: str = ""

    def tools(self) -> dict[str, Tool]:
        async def listed() -> list[Tool]:
            async with self._http() as http, Client(self._target(http)) as client:
                return (await client.list_tools()).tools

        return {one.name: one for one in anyio.run(listed)}

    def call(self, tool: str, **arguments: Any) -> Answer:
        async def called() -> CallToolResult:
            async with self._http() as http, Client(self._target(http)) as client:
                return await client.call_tool(tool, arguments)

        result = anyio.run(called)
        if result.is_error:
            raise Refused(" ".join(one.text for one in result.content if isinstance(one, TextContent)))
        assert result.structured_content is not None
        return dict(result.structured_content)

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.key}"}, timeout=250, trust_env=False)

    def _target(self, http: httpx2.AsyncClient) -> Any:
        return streamable_http_client(self.server, http_client=http) if isinstance(self.server, str) else self.server
