"""`/livez`, `/readyz` and `/metrics` of `ramet worker`, which serves no other HTTP: as those of `ramet serve`."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any

from ramet.errors import Forbidden, Unauthorized, Unavailable
from ramet.monitoring.scrape import Asker, Scrape

_TIMEOUT_SECONDS = 5.0
_REQUEST_SECONDS = 15.0
_MOST_REQUESTS = 32
_MOST_REQUESTS_OF_CLIENT = 8


@contextmanager
def answer_probes(listening: socket, check_ready: Callable[[], None], scrape: Scrape) -> Iterator[None]:
    """Answer on a listening socket during the block. `check_ready` raises Unavailable while no work can be done."""
    server = _Server(check_ready, scrape, listening)
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class _Server(ThreadingHTTPServer):
    """Answers each request in a thread of its own: so many at a time, and each within a time limit as a whole.

    Each client address has its share of them, so that one client keeps no other from an answer.
    """

    daemon_threads = True

    def __init__(self, check_ready: Callable[[], None], scrape: Scrape, listening: socket) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.check_ready, self.scrape = listening, check_ready, scrape
        self._requests: dict[Any, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request, unless too many are being answered: then close its connection."""
        client = client_address[0]
        with self._lock:
            of_client = sum(one == client for one, _ in self._requests.values())
            accepts = len(self._requests) < _MOST_REQUESTS and of_client < _MOST_REQUESTS_OF_CLIENT
            if accepts:
                self._requests[request] = client, time.monotonic() + _REQUEST_SECONDS
        if accepts:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._requests.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the requests whose time is over, several times a second: their threads then find no connection."""
        now = time.monotonic()
        with self._lock:  # so that none of them is closed, and its number used for another one
            for request in [one for one, (_, ends_at) in self._requests.items() if ends_at <= now]:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_SECONDS

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(*self._metrics())
            return
        code = {"/livez": lambda: 200, "/healthz": lambda: 200, "/readyz": self._ready}.get(self.path, lambda: 404)()
        self._answer(code, b"ok\n" if code == 200 else b"no\n", "text/plain; charset=utf-8")

    def _answer(self, code: int, body: bytes, content_type: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _metrics(self) -> tuple[int, bytes, str]:
        try:
            return 200, *self.server.scrape.text(Asker(self.headers, self.client_address[0]))
        except (Forbidden, Unauthorized, Unavailable) as error:
            code = {Forbidden: 403, Unauthorized: 401}.get(type(error), 503)
            return code, f"{error}\n".encode(), "text/plain; charset=utf-8"

    def version_string(self) -> str:
        """Not tell which program answers."""
        return "ramet"

    def log_message(self, format: str, *args: object) -> None:
        """Not log what is asked every few seconds."""

    def _ready(self) -> int:
        try:
            self.server.check_ready()
        except Unavailable:
            return 503
        return 200
