"""uvicorn's HTTP/1.1 protocol with limits that also apply before authentication: bytes and seconds for each request.

Of these, uvicorn limits only the number of connections, with a 503 that makes existing clients stop waiting.
Requests that the parser refuses are answered here, in the format of all errors. `admission` decides which connections
are kept.
"""

import http
import math
from dataclasses import dataclass
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ramet.api.schemas.shared import ErrorBody
from ramet.cli.host.admission import Admission


@dataclass(frozen=True)
class Bounds:
    """The limits of a client. A head that directly follows another request may be twice as long.

    On each connection, `queued_requests` may wait for the answer to an earlier request.
    """

    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    answer_seconds: float = 60.0
    parting_seconds: float = 2.0
    queued_requests: int = 32


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `close_if_overdue` must be called about once a second."""

    def __init__(self, bounds: Bounds, admission: Admission, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.url = b""
        self._bounds = bounds
        self._admission = admission
        self._deadline = math.inf
        self._answer_deadline = math.inf
        self._is_overdue = False
        self._is_refused = False
        self._is_fruitful = False
        self._fruitless_bytes = 0
        self._answering: Any = None

    def connection_made(self, transport: Any) -> None:
        """Accept the connection if there are not too many."""
        super().connection_made(transport)
        self._expect(self._bounds.head_seconds)
        client: Any = self.client  # None when it is gone already
        if not self._admission.enter(self, client[0] if client else ""):
            # Not a 503: clients that poll a service stop at it, and the request is not known yet.
            self._is_refused = True
            transport.write(error_answer(500, "TOO_MANY_CONNECTIONS", "The server answers as many requests as it can"))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let another connection take the place of this one."""
        self._admission.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data in pieces, so that the parser gets no more of a head than is allowed."""
        if not self._is_open():
            return
        self._unset_keepalive_if_required()
        start = 0
        while start < len(data) and self._is_open():
            end = start + self._bounds.head_bytes - self._fruitless_bytes
            self._feed(data[start:end])
            start = end

    def on_headers_complete(self) -> None:
        """Begin with the answer; the body has its own timeout. Data after a refusal is dropped."""
        if self._is_refused:
            return
        if self.parser.get_http_version() == "1.1" and [name for name, _ in self.headers].count(b"host") != 1:
            raise httptools.HttpParserError("not one Host header: RFC 9112, 3.2")
        super().on_headers_complete()
        self._is_fruitful = True
        self._expect(self._bounds.body_seconds)
        if len(self.pipeline) > self._bounds.queued_requests:
            self._refuse(
                400,
                "TOO_MANY_REQUESTS",
                f"More than {self._bounds.queued_requests} requests wait for an answer on this connection",
            )

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        super().on_body(body)
        self._is_fruitful = True

    def on_message_complete(self) -> None:
        """Stop waiting for the client, or wait for its next request if it already has its answer."""
        super().on_message_complete()
        self._is_fruitful = True
        if self.cycle.response_complete:
            self._expect_next()
        else:
            self._expect(math.inf)
            self._admission.answer(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived."""
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if not has_next:
            self._admission.wait(self)
            self._expect_next()

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read its answer."""
        super().pause_writing()
        self._answer_deadline = self.loop.time() + self._bounds.answer_seconds
        self._is_overdue = False

    def close_if_overdue(self, now: float) -> None:
        """Close the connection if its client is overdue in two calls in a row.

        Between the two calls, the event loop reads data that arrived while it was busy.
        """
        deadline = self._answer_deadline if self.flow.write_paused else self._deadline
        if now < deadline or (self.flow.read_paused and not self.flow.write_paused):
            return
        if not self._is_overdue:
            self._is_overdue = True
        elif self._is_refused or self.flow.write_paused or self.transport.is_closing():
            self.transport.abort()
        elif self._has_begun():
            self._refuse(408, "REQUEST_TIMEOUT", "The request was not complete within the time limit")
        else:
            self.transport.close()

    def give_way(self) -> None:
        """Close the connection to make room for another one."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _feed(self, piece: bytes) -> None:
        self._is_fruitful = False
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # no protocol to upgrade to: the request is answered without the upgrade
        except httptools.HttpParserError:
            self._refuse(400, "INVALID_REQUEST", "The request is not well-formed HTTP/1.1")
            return
        self._fruitless_bytes = 0 if self._is_fruitful else self._fruitless_bytes + len(piece)
        if self._fruitless_bytes >= self._bounds.head_bytes:
            self._refuse_head()

    def _refuse_head(self) -> None:
        most = f"{self._bounds.head_bytes // 1024} KiB"
        if len(self.url) > self._bounds.head_bytes // 2:
            self._refuse(414, "ADDRESS_TOO_LONG", f"The address of the request is longer than {most}")
        else:
            self._refuse(431, "HEADERS_TOO_LARGE", f"The headers of the request are larger than {most}")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer with an error and close; data that still arrives is read and dropped for `parting_seconds`.

        If the data was not read, the kernel would send a reset, and the client would lose the answer.
        An earlier request that was complete still gets its answer; then the connection is closed.
        """
        self._is_refused = True
        self.pipeline.clear()
        cycle = self._answering  # not self.cycle, which may be queued behind it; None before the first request
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.keep_alive = False
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self._expect(self._bounds.parting_seconds)
        self.transport.write(error_answer(status, code, message))
        if self.transport.can_write_eof():  # not with TLS: the client closes, or the deadline does
            self.transport.write_eof()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _is_open(self) -> bool:
        return not self._is_refused and not self.transport.is_closing()

    def _has_begun(self) -> bool:
        """Tell whether a part of a request has arrived that has no answer yet."""
        cycle: Any = self.cycle
        return self._fruitless_bytes > 0 or (cycle is not None and not cycle.response_complete)

    def _expect_next(self) -> None:
        self._expect(self.timeout_keep_alive + self._bounds.head_seconds)

    def _expect(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        self._is_overdue = False


@dataclass(frozen=True)
class Protocols:
    """Makes the protocol of each connection of a server."""

    bounds: Bounds
    admission: Admission

    def __call__(self, **of_uvicorn: Any) -> BoundedProtocol:
        """Return the protocol of a new connection."""
        return BoundedProtocol(self.bounds, self.admission, **of_uvicorn)


def error_answer(status: int, code: str, message: str) -> bytes:
    """Return a complete HTTP answer with an error, which also closes the connection."""
    body = msgspec.json.encode(ErrorBody(code, message))
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
