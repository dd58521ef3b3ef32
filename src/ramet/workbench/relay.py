"""A way to a server that ends when too much has come through it, or when it has been open for too long.

libpq keeps a whole row in memory however large it is, and a statement can catch its cancellation: neither can be
bounded by what is on either side of the connection.
"""

import socket
import threading
from contextlib import suppress
from types import TracebackType

from ramet.endpoints import address
from ramet.errors import Error, TooLarge, Unavailable
from ramet.workbench.remedies import MAY_HAVE_RUN

_CHUNK = 64 * 1024
_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 30


class Relay:
    """Listens on loopback for one client of a server, and passes bytes on: also those of its requests to cancel.

    What is encrypted stays so. `ended_by` says what has ended it: "size", "time", or nothing yet; `problem` why it
    does not reach the server.
    """

    def __init__(self, host: str, port: int, most_bytes: int, seconds: float) -> None:
        self.ended_by = ""
        self.problem = ""
        self._address = (host, port)
        self._left = most_bytes
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_over = False
        self._listener = socket.create_server((_LOOPBACK, 0))
        self._timer = threading.Timer(seconds, self._end, ("time",))
        self._timer.daemon = True

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return _LOOPBACK, self._listener.getsockname()[1]

    def reason(self, error: Exception) -> str:
        """Return why libpq got no connection, without what precedes it: the address of the relay."""
        return self.problem or str(error).strip().rpartition("failed: ")[2]

    def __enter__(self) -> "Relay":
        self._timer.start()
        _begin(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        self._end("")

    def _end(self, reason: str) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over, self.ended_by = True, reason
            for each in (self._listener, *self._sockets):
                _shut(each)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                _begin(self._join, client)

    def _join(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._address, _CONNECT_SECONDS)
        except OSError as error:
            self.problem = f"{address(*self._address)}: {error.strerror or error}"
            client.close()
            return
        with client, server:
            server.settimeout(None)
            with self._lock:
                if self._is_over:
                    return
                self._sockets |= {client, server}
            back = _begin(self._pass_back, server, client)
            _pass(client, server)
            back.join()
            with self._lock:
                self._sockets -= {client, server}

    def _pass_back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK):
                self._left -= len(data)
                if self._left < 0:
                    self._end("size")
                client.sendall(data)
        _shut(client)


def beyond_limits(relay: Relay, most_bytes: int, seconds: float, *, may_have_run: bool) -> Error | None:
    """Return what to say of a session that its relay has ended; None when it has not."""
    unknown = f" {MAY_HAVE_RUN}" if may_have_run else ""
    if relay.ended_by == "size":
        return TooLarge(
            "RESULT_TOO_LARGE",
            f"The result is larger than {most_bytes // 1024**2} MiB",
            f"Select fewer rows or columns, or only the beginning of values: left(column, 1000).{unknown}",
        )
    if relay.ended_by == "time":
        wrong = f"The statement did not end within {seconds:g} seconds, nor when it was cancelled"
        return Unavailable("STATEMENT_ABANDONED", wrong, f"Its session was closed.{unknown}")
    return None


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    _shut(sink)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _begin(function: object, *arguments: object) -> threading.Thread:
    made = threading.Thread(target=function, args=arguments, daemon=True)  # type: ignore[arg-type]
    made.start()
    return made
