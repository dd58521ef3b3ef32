"""A small API server over a cluster in memory.

It knows server-side apply and merge patches, lists by label, watches, and programs that are run in pods: the relay of
connections is run on this host, and `answer` of the cluster says what the others print.
"""

import base64
import hashlib
import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, Context, User
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping
from wsproto.utilities import LocalProtocolError

from harness.kubernetes.certificates import Pair
from ramet.backends.kubernetes.api import AFTER_INPUT, Api
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.shared_tls import SharedSocket
from ramet.backends.kubernetes.site import Site
from tests.backends.kubernetes.fake_cluster import NAMESPACE, FakeCluster, merged

_PATH = re.compile(r"/apis?/(?:[^/]+/)?v1/(?:namespaces/[^/]+/)?([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?")
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class _Handler(BaseHTTPRequestHandler):
    """Answers requests; `server.cluster` has the objects."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are written one after the other
    server: "_Server"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        plural, name, action, query = self._asked()
        if action == "exec" and self.server.cluster.refused_runs:
            self._json(500, _status(500, self.server.cluster.refused_runs.pop()))
        elif action == "exec":
            _Exec(self, name, query).run()
        elif "watch" in query:
            self._watch(plural, query)
        elif action == "log":
            text, _, code = self.server.cluster.answer(name, ["log"], "")
            self._send(code if code in (400, 403, 404) else 200, text.encode())
        elif name:
            found = self.server.cluster.objects.get((plural, name))
            self._json(404, _status(404, f"{plural} {name} not found")) if found is None else self._json(200, found)
        elif plural in self.server.cluster.unknown:
            self._json(404, _status(404, "the server could not find the requested resource"))
        elif plural:
            with self.server.cluster.changed:
                items = [one for kind, one in self._labelled(plural, query)]
                version = self.server.cluster.version()
            self._json(200, {"items": items, "metadata": {"resourceVersion": str(version)}})
        else:
            self._json(200, {"gitVersion": "v1.34.4"})

    def do_POST(self) -> None:
        self._body()
        self._json(201, {"status": {"allowed": True}})

    def do_PATCH(self) -> None:
        plural, name, _, _ = self._asked()
        body = self._body()
        code = self.server.cluster.refused.get(plural)
        if code is not None:
            self._json(code, _status(code, f"admission webhook denied {name}"))
            return
        old = self.server.cluster.objects.get((plural, name), {})
        if "apply-patch" in str(self.headers["Content-Type"]):
            kept = {key: old[key] for key in ("status",) if key in old}
            found = {**body, **kept}
        else:
            found = merged(old, body)
        self._json(200, self.server.cluster.put(plural, found))

    def do_DELETE(self) -> None:
        plural, name, _, _ = self._asked()
        self._body()
        is_there = self.server.cluster.remove(plural, name)
        self._json(200, {"status": "Success"}) if is_there else self._json(404, _status(404, "not found"))

    def _asked(self) -> tuple[str, str, str, dict[str, list[str]]]:
        url = urlsplit(self.path)
        found = _PATH.fullmatch(url.path)
        plural, name, action = found.groups(default="") if found else ("", "", "")
        self.server.cluster.requests.append((self.command, url.path))
        return plural, name, action, parse_qs(url.query)

    def _labelled(self, plural: str, query: dict[str, list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
        for (kind, name), one in list(self.server.cluster.objects.items()):
            if kind == plural and _has(one, query.get("labelSelector", [""])[0]):
                yield name, one

    def _watch(self, plural: str, query: dict[str, list[str]]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        version = int(query["resourceVersion"][0])
        while not self.server.cluster.closing:
            version, events = self.server.cluster.events_after(version, plural)
            if self.server.cluster.silent:  # as on a connection that was lost without a word
                continue
            for event, one in events:
                if _has(one, query.get("labelSelector", [""])[0]):
                    self.wfile.write(json.dumps({"type": event, "object": one}).encode() + b"\n")
            self.wfile.flush()
        self.close_connection = True

    def _body(self) -> dict[str, Any]:
        text = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return dict(json.loads(text)) if text else {}

    def _json(self, code: int, found: Mapping[str, Any]) -> None:
        self._send(code, json.dumps(found).encode())

    def _send(self, code: int, text: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class _Exec:
    """One program that is run in a pod, over a WebSocket."""

    def __init__(self, handler: _Handler, pod: str, query: dict[str, list[str]]) -> None:
        self._handler = handler
        self._pod = pod
        words, prefix = query["command"], list(AFTER_INPUT)
        self._command = words[len(prefix) :] if words[: len(prefix)] == prefix else words
        self._has_input = query.get("stdin") == ["true"]
        self._socket = Connection(ConnectionType.SERVER)
        self._lock = threading.Lock()

    def run(self) -> None:
        """Accept the WebSocket, run the program, and send its end."""
        key = str(self._handler.headers["Sec-WebSocket-Key"]).encode()
        self._handler.send_response(101)
        self._handler.send_header("Upgrade", "websocket")
        self._handler.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key + _KEY, usedforsecurity=False).digest())
        self._handler.send_header("Sec-WebSocket-Accept", accept.decode())
        self._handler.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        self._handler.end_headers()
        self._handler.close_connection = True
        with suppress(OSError, LocalProtocolError):  # the client has gone
            if self._command[0] == "perl":
                self._end(self._run_here())
            else:
                given = b"".join(self._messages()).decode(errors="replace") if self._has_input else ""
                self._answer(*self._handler.server.cluster.answer(self._pod, self._command, given))
            self._write(self._socket.send(CloseConnection(code=1000)))

    def _answer(self, out: str, errors: str, code: int) -> None:
        self._write(self._socket.send(Message(b"\1" + out.encode())))
        self._write(self._socket.send(Message(b"\2" + errors.encode())))
        self._end(code)

    def _run_here(self) -> int:
        pipe = subprocess.PIPE
        with subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as program:
            assert program.stdin is not None
            outputs = [
                threading.Thread(target=self._pass, args=one) for one in ((1, program.stdout), (2, program.stderr))
            ]
            for thread in outputs:
                thread.start()
            threading.Thread(target=self._feed, args=(program.stdin,), daemon=True).start()
            for thread in outputs:
                thread.join()
            return program.wait()

    def _pass(self, channel: int, stream: Any) -> None:
        with suppress(OSError):
            while data := stream.read(65536):
                self._write(self._socket.send(Message(bytes([channel]) + data)))

    def _feed(self, stream: Any) -> None:
        """Give the program its input, until the client ends it or goes."""
        with suppress(OSError, ValueError):
            for part in self._messages():
                stream.write(part)
            stream.close()

    def _messages(self) -> Iterator[bytes]:
        """Yield what the client sends to the program, until it ends that or goes."""
        part = b""
        while data := self._handler.connection.recv(65536):
            self._socket.receive_data(data)
            for event in self._socket.events():
                if isinstance(event, BytesMessage):
                    part += bytes(event.data)
                    if event.message_finished:
                        if part[0] == 255:
                            return
                        yield part[1:]
                        part = b""
                elif isinstance(event, Ping):
                    self._write(self._socket.send(event.response()))
                elif isinstance(event, CloseConnection):
                    return

    def _end(self, code: int) -> None:
        success = {"status": "Success"}
        causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
        failure = {"status": "Failure", "reason": "NonZeroExitCode", "message": "it failed", "details": causes}
        self._write(self._socket.send(Message(b"\3" + json.dumps(failure if code else success).encode())))

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._handler.connection.sendall(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    cluster: FakeCluster


def _has(found: Mapping[str, Any], selector: str) -> bool:
    labels = found["metadata"].get("labels", {})
    wanted = [one.partition("=") for one in selector.split(",") if one]
    return all(key in labels and (not equals or labels[key] == value) for key, equals, value in wanted)


def _status(code: int, message: str) -> Mapping[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


def _over_tls(listener: socket.socket, pair: Pair) -> ssl.SSLSocket:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.sslsocket_class = SharedSocket
    with NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context.wrap_socket(listener, server_side=True)


@contextmanager
def api_server(certificate: Pair | None = None, namespace: str = NAMESPACE) -> Iterator[tuple[FakeCluster, Api]]:
    """Run an API server, and give a client of it; with a certificate, over TLS."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.cluster = FakeCluster()
    place = Cluster(server=f"http://127.0.0.1:{server.server_port}")
    if certificate is not None:
        server.socket = _over_tls(server.socket, certificate)
        authority = base64.b64encode(certificate.certificate).decode()
        place = Cluster(server=f"https://127.0.0.1:{server.server_port}", certificate_auth_data=authority)
    server.cluster.url = str(place.server)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    api = Api(SingleConfig("test", Context("test"), place, User()), namespace)
    try:
        yield server.cluster, api
    finally:
        server.cluster.closing = True
        api.close()
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(url: str) -> dict[str, Any]:
    """Return what a kubeconfig file says of the API server at a URL."""
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    users = [{"name": "test", "user": {"token": "secret-token"}}]
    clusters = [{"name": "test", "cluster": {"server": url}}]
    return {"current-context": "test", "contexts": [context], "clusters": clusters, "users": users}


@contextmanager
def in_cluster(namespace: str = NAMESPACE, **changes: Any) -> Iterator[tuple[FakeCluster, Place]]:
    """Run an API server, and give a namespace of it."""
    with api_server(namespace=namespace) as (found, api):
        place = Place(api, Site(namespace, **changes))
        try:
            yield found, place
        finally:
            place.close()
