"""A client that disconnects before the body that it sends is complete."""

import asyncio
from collections.abc import Mapping
from typing import Any

_FORM = "application/x-www-form-urlencoded"


def status_of_disconnected(
    app: Any, path: str, cookies: Mapping[str, str], media_type: str = _FORM, authorization: str = ""
) -> int:
    """Send the head and a part of a body to an application, and disconnect; return the status of the answer."""
    parts: list[dict[str, object]] = [{"type": "http.request", "body": b"{", "more_body": True}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, object]:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"cookie", cookie.encode()),
            (b"content-type", media_type.encode()),
            (b"authorization", authorization.encode()),
        ],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "extensions": {},
        "state": {},
    }
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])
