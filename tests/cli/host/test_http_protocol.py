"""Limits of HTTP: slow, silent and excessive clients do not keep the server from answering others."""

import http.client
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.cli.host.http_protocol import Bounds
from ramet.cli.host.serving import bounded_protocol
from ramet.settings import load_settings
from tests.cli.served import BIG_BYTES, MOST, Served, serving

_GET = b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def served() -> Iterator[Served]:
    """A server with long timeouts: whatever it refuses, it refuses for its size or number."""
    with serving(Bounds(head_seconds=600, body_seconds=600, answer_seconds=600)) as made:
        yield made


@pytest.fixture
def impatient() -> Iterator[Served]:
    with serving(Bounds(head_seconds=0.1, body_seconds=0.1, answer_seconds=0.1)) as made:
        yield made


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Read all that is answered until the server closes; return the status and the error."""
    received = b""
    while part := connection.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head, received[:500]
    error = json.loads(body)
    assert set(error) == {"code", "message"}
    return int(head.split()[1]), error


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_requests_are_answered_despite_too_many_half_open_connections(served: Served) -> None:
    with ExitStack() as stack:
        opened = []
        for number in range(MOST * 5):
            opened.append(stack.enter_context(served.connect()))
            opened[-1].sendall(b"GET /quick HTTP/1.1\r\nHost: " if number % 2 else b"")
            if number % 10 == 0:
                assert served.get().status_code == 200
        assert served.connections <= MOST
        assert is_closed(opened[0])


def test_a_request_that_is_being_answered_is_not_closed_for_others(served: Served) -> None:
    with served.connect() as held, ExitStack() as stack:
        held.sendall(_GET.replace(b"quick", b"held"))
        assert served.held.wait(30)
        opened = [stack.enter_context(served.connect()) for _ in range(MOST * 3)]
        assert served.get().status_code == 200
        assert is_closed(opened[0])
        served.go_on.set()
        assert held.recv(65536).startswith(b"HTTP/1.1 200")


def test_an_incomplete_head_times_out(impatient: Served) -> None:
    with impatient.connect() as silent, impatient.connect() as slow:
        slow.sendall(b"GET /quick HTTP/1.1\r\nHost: x\r\nX-More: ")
        assert is_closed(silent)
        assert (answer(slow)[0], impatient.get().status_code) == (408, 200)


def test_an_incomplete_body_times_out(impatient: Served) -> None:
    with impatient.connect() as slow:
        slow.sendall(b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        status, error = answer(slow)
    assert (status, error["code"]) == (408, "REQUEST_TIMEOUT")


def test_a_client_that_does_not_read_its_answer_is_disconnected(impatient: Served) -> None:
    with impatient.connect() as deaf:
        deaf.sendall(_GET.replace(b"quick", b"big"))
        eventually(lambda: impatient.server.server_state.total_requests > 0 or impatient.connections > 0)
        eventually(lambda: impatient.connections == 0)


def test_a_kept_connection_serves_further_requests(impatient: Served) -> None:
    with impatient.connect() as connection:
        for _ in range(3):
            connection.sendall(_GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("beginning", "endless", "status"),
    [
        (b"GET /quick HTTP/1.1\r\nHost: x\r\nX-Big: ", b"a", 431),
        (b"GET /quick HTTP/1.1\r\nX-Big: ", b"a", 431),
        (b"GET /quick HTTP/1.1\r\n", b"X: y\r\n", 431),
        (b"GET /", b"a", 414),
        (b"POST /quick HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Big: ", b"a", 431),
    ],
)
def test_a_head_of_64_mib_is_refused_while_others_are_answered(
    served: Served, beginning: bytes, endless: bytes, status: int
) -> None:
    with served.connect() as connection:
        connection.sendall(beginning)
        piece = endless * (65536 // len(endless))
        try:
            for _ in range(BIG_BYTES // len(piece)):
                connection.sendall(piece)
        except OSError:
            pass  # the server closed the connection before everything was sent
        else:
            assert answer(connection)[0] == status
        assert served.get().status_code == 200


@pytest.mark.parametrize("length", [40_000, 64_000, 70_000, 200_000])
def test_a_url_that_is_too_long_is_refused_in_the_format_of_all_errors(served: Served, length: int) -> None:
    with closing(http.client.HTTPConnection(*served.address, timeout=30)) as connection:
        connection.request("GET", "/" + "a" * length)
        refused = connection.getresponse()
        assert (refused.status, refused.headers["content-type"]) == (414, "application/json")
        assert json.loads(refused.read())["code"] == "ADDRESS_TOO_LONG"


def test_a_long_url_within_the_limit_is_answered(served: Served) -> None:
    assert served.get("/" + "a" * 30_000).status_code == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET // HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_malformed_http_is_refused_in_the_format_of_all_errors(served: Served, garbage: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(garbage)
        status, error = answer(connection)
    assert (status, error["code"]) == (400, "INVALID_REQUEST")


def test_a_request_followed_by_garbage_is_answered(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_GET + b"\x00garbage\r\n\r\n")
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "behind",
    [
        _GET + b"\x00garbage\r\n\r\n",
        b"POST /quick HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\ngarbage\r\n",
    ],
    ids=["garbage behind a request that waits", "garbage in a body that waits"],
)
def test_a_request_followed_by_a_refused_one_is_answered(served: Served, behind: bytes) -> None:
    with served.connect() as connection:
        connection.sendall(_GET.replace(b"quick", b"held"))
        assert served.held.wait(30)
        connection.sendall(behind)
        eventually(lambda: all(_is_refused(one) for one in served.server.server_state.connections))
        served.go_on.set()
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1") == 1


def test_a_connection_with_too_many_queued_requests_is_closed_after_the_first_answer(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_GET.replace(b"quick", b"held"))
        assert served.held.wait(30)
        connection.sendall(_GET * 1000)
        eventually(lambda: all(_is_refused(one) for one in served.server.server_state.connections))
        served.go_on.set()
        eventually(lambda: served.connections == 0)
        assert served.server.server_state.total_requests == 1


def _is_refused(connection: Any) -> bool:
    return not connection.pipeline and not connection._is_open()


def test_requests_in_one_piece_with_large_bodies_are_all_answered(served: Served) -> None:
    body = b"b" * 50_000
    one = b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + body
    with served.connect() as connection:
        connection.sendall(one * 4)
        received = b""
        while received.count(b"50000") < 4:
            part = connection.recv(65536)
            assert part, received
            received += part


def test_a_request_for_an_unknown_upgrade_is_answered_without_it(served: Served) -> None:
    with served.connect() as connection:
        asked = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"
        connection.sendall(_GET.replace(b"Host: x", asked))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nhost: y\r\n"])
@pytest.mark.parametrize("rest", [b"", b"Content-Length: 2\r\n\r\n{}" + _GET])
def test_a_request_without_one_host_is_refused_and_what_follows_it_too(
    served: Served, hosts: bytes, rest: bytes
) -> None:
    with served.connect() as connection:
        connection.sendall(b"GET /quick HTTP/1.1\r\n" + hosts + (rest or b"\r\n"))
        status, error = answer(connection)
    assert (status, error["code"], served.server.server_state.total_requests) == (400, "INVALID_REQUEST", 0)


def test_a_request_in_http_1_0_needs_no_host(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(b"GET /quick HTTP/1.0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_at_most_half_of_the_file_descriptors_are_connections() -> None:
    protocol = bounded_protocol(load_settings({}, http_connections=1_000_000))
    assert protocol.admission.most == resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
