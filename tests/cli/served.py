"""A server with HTTP as Ramet serves it, over an application of the tests' own."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from ramet.cli.host.http_protocol import Bounds
from ramet.cli.host.serving import Server, bounded_protocol, listen
from ramet.cli.host.tls import ServerCertificate
from ramet.settings import load_settings

MOST, OF_ADDRESS = 40, 20
BIG_BYTES = 64 * 1024**2


@dataclass
class Served:
    """A server with its own application, and what a test needs to send requests to it."""

    server: Server
    address: tuple[str, int]
    held: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=30)

    def get(self, path: str = "/quick") -> httpx.Response:
        return httpx.get(f"http://{self.address[0]}:{self.address[1]}{path}", timeout=30, trust_env=False)

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)


@contextmanager
def serving(bounds: Bounds, certificate: ServerCertificate | None = None) -> Iterator[Served]:
    listening = listen("127.0.0.1", 0)
    made: list[Served] = []

    async def application(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body = b"".join([part async for part in _parts(receive)])
        if scope["path"] == "/held":
            made[0].held.set()
            await asyncio.to_thread(made[0].go_on.wait, 60)
        content = b"x" * BIG_BYTES if scope["path"] == "/big" else b"%d" % len(body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["raw_path"][:50])]})
        for _ in range(2):
            await send({"type": "http.response.body", "body": content, "more_body": True})
            content = b""
        await send({"type": "http.response.body", "body": b""})

    given = {"http_connections": MOST, "http_connections_per_address": OF_ADDRESS}
    protocol: Any = bounded_protocol(load_settings({}, **given), bounds)
    config = uvicorn.Config(application, http=protocol, log_config=None, ws="none", lifespan="off", loop="uvloop")
    started = threading.Event()
    server = Server(config, started.set, lambda: None, certificate)
    made.append(Served(server, listening.getsockname()))

    def run() -> None:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server._serve([listening]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(30)
        yield made[0]
    finally:
        made[0].go_on.set()
        server.should_exit = True
        thread.join(30)
        listening.close()


async def _parts(receive: Callable[[], Any]) -> Any:
    while (message := await receive())["type"] == "http.request":
        yield message["body"]
        if not message["more_body"]:
            return
