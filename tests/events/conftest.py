"""A world that records events, a receiver of deliveries on this host, and what delivers to it."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path

import pytest

from ramet.events.dispatcher import Dispatcher
from ramet.events.recorder import EventRecorder
from ramet.events.sender import Sender
from tests.api.world import World, open_world
from tests.stores import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]


@dataclass
class Receiver:
    """What has arrived, and how it is answered."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    arrived: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@pytest.fixture(scope="module")
def served() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.arrived.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def receiver(served: Receiver) -> Receiver:
    served.status, served.headers = 200, {}
    served.arrived.clear()
    return served


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    for made in open_world(tmp_path):
        made.store.recorders.insert(0, EventRecorder(made.clock).record)
        yield made


@pytest.fixture
def dispatcher(world: World) -> Dispatcher:
    return Dispatcher(world.plane, Sender([ip_network("127.0.0.0/8")], seconds=5.0), jitter=lambda: 1.0)
