"""`/livez` and `/readyz` of `ramet worker`, which serves no other HTTP: the same as those of `ramet serve`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket

from ramet.errors import Unavailable

_TIMEOUT_SECONDS = 5.0


@contextmanager
def answer_probes(listening: socket, check_ready: Callable[[], None]) -> Iterator[None]:
    """Answer on a listening socket during the block. `check_ready` raises Unavailable while no work can be done."""
    server = _Server(check_ready, listening)
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, check_ready: Callable[[], None], listening: socket) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.check_ready = listening, check_ready


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_SECONDS

    def do_GET(self) -> None:
        code = {"/livez": lambda: 200, "/readyz": self._ready}.get(self.path, lambda: 404)()
        text = b"ok\n" if code == 200 else b"no\n"
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

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
