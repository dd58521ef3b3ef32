"""An HTTP proxy before an object store that fails as real ones do: the same faults for the same seed, never for ever.

Which fault a request meets depends on the seed, the request, and how often the same request came before, not on time.
So two runs meet the same faults, and after `most_in_a_row` of them a request passes. The bodies of requests and
answers are kept in memory: parts of multipart uploads are small.
"""

import contextlib
import http.client
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_KINDS = ("slow_down", "reset_request", "reset_answer", "truncated", "delay")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_ENTRY = re.compile(r"<(Contents|CommonPrefixes)>.*?<(?:Key|Prefix)>(.*?)</(?:Key|Prefix)>.*?</\1>", re.DOTALL)
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


@dataclass(frozen=True)
class Faults:
    """The share of requests that meet each fault, from 0 to 1, and for how many listings a change is not listed.

    slow_down      503 SlowDown, the request has no effect
    reset_request  the connection is reset in the middle of the request's body, the request has no effect
    reset_answer   the request has its effect, the connection is reset in the middle of the answer
    truncated      the request has its effect, the connection ends before the end of the answer
    delay          the request waits for `delay_seconds`

    An answer of more than `longest_answer_bytes` ends there each time, as on a link over which more does not come
    within the time-out of a request. `etags` says whether objects that are read have an ETag, and of which kind.
    """

    seed: int = 0
    slow_down: float = 0.0
    reset_request: float = 0.0
    reset_answer: float = 0.0
    truncated: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.2
    stale_listings: int = 0
    most_in_a_row: int = 2
    longest_answer_bytes: int | None = None
    etags: Literal["strong", "weak", "none"] = "strong"


@dataclass
class Listings:
    """What listings do not show yet: objects that were written, and objects that were deleted and still appear."""

    stale: int
    _written: dict[str, int] = field(default_factory=dict)
    _deleted: dict[str, int] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, path: str) -> None:
        """Remember that an object (/BUCKET/KEY) was written."""
        with self._lock:
            self._deleted.pop(path, None)
            if path not in self._settled:
                self._written[path] = self.stale

    def deleted(self, path: str) -> None:
        """Remember that an object was deleted."""
        with self._lock:
            self._written.pop(path, None)
            if path in self._settled:
                self._settled.discard(path)
                self._deleted[path] = self.stale

    def shown(self, bucket: str, prefix: str, delimited: bool, body: str) -> str:
        """Return a listing without what was written lately, with what was deleted lately. Each listing counts."""
        with self._lock:
            fresh = {path for path in self._written if path.startswith(f"/{bucket}/{prefix}")}

            def kept(found: re.Match[str]) -> str:
                path = f"/{bucket}/{unquote(found[2])}"
                if found[1] == "Contents":
                    return "" if path in fresh else found[0]
                settled = any(one.startswith(path) for one in self._settled)
                return "" if not settled and any(one.startswith(path) for one in fresh) else found[0]

            listed = _ENTRY.sub(kept, body)
            ghosts = [path for path in self._deleted if path.startswith(f"/{bucket}/{prefix}")]
            if not delimited:
                entries = "".join(_entry(path.removeprefix(f"/{bucket}/")) for path in ghosts)
                listed = listed.replace("</ListBucketResult>", f"{entries}</ListBucketResult>")
            self._count(self._written, fresh, settled=True)
            self._count(self._deleted, ghosts, settled=False)
            return listed

    def _count(self, waiting: dict[str, int], seen: Any, *, settled: bool) -> None:
        for path in list(seen):
            waiting[path] -= 1
            if waiting[path] <= 0:
                del waiting[path]
                if settled:
                    self._settled.add(path)


@dataclass
class FaultyStore:
    """The proxy: where it listens, what it does to requests, and what it has counted.

    `refusal` answers every request with a status and an S3 error code; `open_gate` unset lets every request wait.
    """

    upstream: str
    faults: Faults
    url: str = ""
    refusal: tuple[int, str] | None = None
    open_gate: threading.Event = field(default_factory=threading.Event)
    injected: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    listings: Listings = field(init=False)
    _seen: Counter[str] = field(default_factory=Counter)
    _in_a_row: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.listings = Listings(self.faults.stale_listings)
        self.open_gate.set()

    @contextlib.contextmanager
    def refusing(self, status: int, code: str) -> Iterator[None]:
        """Answer every request with an error within the block."""
        self.refusal = (status, code)
        try:
            yield
        finally:
            self.refusal = None

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let every request wait for the end of the block."""
        self.open_gate.clear()
        try:
            yield
        finally:
            self.open_gate.set()

    def next_fault(self, method: str, path: str) -> str | None:
        """Return which fault a request meets, None for none; counted."""
        request = f"{method} {re.sub(r'uploadId=[^&]*', '', path)}"
        with self._lock:
            self.requests[method] += 1
            chance = random.Random(f"{self.faults.seed} {request} {self._seen[request]}")  # noqa: S311 - no secret
            self._seen[request] += 1
            kind = next((each for each in _KINDS if chance.random() < getattr(self.faults, each)), None)
            if kind is None or (kind != "delay" and self._in_a_row[request] >= self.faults.most_in_a_row):
                self._in_a_row[request] = 0
                return None
            if kind != "delay":
                self._in_a_row[request] += 1
            self.injected[kind] += 1
            return kind


@contextlib.contextmanager
def faulty_store(upstream: str, faults: Faults | None = None) -> Iterator[FaultyStore]:
    """Serve the store at a URL through a proxy on loopback, with faults; `AWS_ENDPOINT_URL` is its `url`."""
    store = FaultyStore(upstream, faults or Faults())
    server = _Server(("127.0.0.1", 0), type("Bound", (_Handler,), {"store": store}))
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="faulty-store")
    thread.start()
    try:
        yield store
    finally:
        store.open_gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    store: FaultyStore

    def handle_one_request(self) -> None:
        """Read one request and answer it, whatever its method is."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self._serve()
        self.wfile.flush()

    def _serve(self) -> None:
        fault = self.store.next_fault(self.command, self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if fault == "reset_request":
            self.rfile.read(length // 2)
            self._reset()
            return
        body = self.rfile.read(length)
        self.store.open_gate.wait()
        if self.store.refusal is not None:
            self._refuse(*self.store.refusal)
            return
        if fault == "slow_down":
            self._refuse(503, "SlowDown")
            return
        if fault == "delay":
            time.sleep(self.store.faults.delay_seconds)
        status, headers, answer = self._ask(body)
        self._answer(status, headers, answer, fault)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Pass a request on, with the Host header that was signed."""
        connection = http.client.HTTPConnection(urlsplit(self.store.upstream).netloc, timeout=120)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"connection", "expect"}:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            found = connection.getresponse()
            answer = found.read()
            headers = [(name, value) for name, value in found.getheaders() if name.lower() not in _HOP_BY_HOP]
            if self.command == "GET":
                headers = self._with_etags(headers)
            if self.command == "HEAD":
                headers.append(("Content-Length", found.getheader("Content-Length") or "0"))
        finally:
            connection.close()
        return found.status, headers, self._relisted(found.status, body, answer)

    def _with_etags(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        kind, others = self.store.faults.etags, [(name, value) for name, value in headers if name.lower() != "etag"]
        if kind == "strong" or len(others) == len(headers):
            return headers
        return others if kind == "none" else [*others, ("ETag", 'W/"1"')]

    def _relisted(self, status: int, body: bytes, answer: bytes) -> bytes:
        """Note what a request changed, and let a listing show what it would some time ago."""
        parts = urlsplit(self.path)
        query, path = parse_qs(parts.query, keep_blank_values=True), unquote(parts.path)
        listings = self.store.listings
        if status >= 300 or not listings.stale:
            return answer
        if (self.command == "PUT" and "uploadId" not in query) or (self.command == "POST" and "uploadId" in query):
            listings.wrote(path)
        elif self.command == "DELETE" and "uploadId" not in query:
            listings.deleted(path)
        elif self.command == "POST" and "delete" in query:
            for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                listings.deleted(f"{path.rstrip('/')}/{key}")
        elif self.command == "GET" and "list-type" in query:
            bucket, prefix = path.strip("/"), query.get("prefix", [""])[0]
            return listings.shown(bucket, prefix, "delimiter" in query, answer.decode()).encode()
        return answer

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: str | None = None) -> None:
        if fault == "reset_answer" and not body:
            self._reset()
            return
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        longest = self.store.faults.longest_answer_bytes
        if longest is not None and len(body) > longest:
            self.wfile.write(body[:longest])
            self.wfile.flush()
            self.close_connection = True
            return
        if fault in ("reset_answer", "truncated"):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            if fault == "reset_answer":
                self._reset()
            return
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self._answer(status, [("Content-Type", "application/xml")], body)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _entry(key: str) -> str:
    when = "2026-01-01T00:00:00.000Z"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified><ETag>&quot;0&quot;</ETag>"
        "<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )
