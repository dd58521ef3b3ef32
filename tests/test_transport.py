"""The connections of the client: kept open, and given up when the server has closed them."""

import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from harness.waiting import BOUND_SECONDS
from ramet.client import ApiError, Client, TimedOut, elsewhere
from ramet.client.http_connection import Limits
from ramet.client.transport import HttpTransport, checked_address, verification
from ramet.errors import Invalid, Unavailable
from ramet.model.passwords import Secret
from ramet.moves.destination import Address

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"


@contextmanager
def server(*answers: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection with each function; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(BOUND_SECONDS)
    assert not thread.is_alive()


def answer_twice(connection: socket.socket) -> None:
    for _ in range(2):
        connection.recv(65536)
        connection.sendall(OK)


def answer_once(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(OK)


def test_a_connection_serves_one_request_after_the_other() -> None:
    with server(answer_twice) as address, closing(HttpTransport(address, 30)) as transport:
        assert [transport.request("GET", "/x", None, {}).content for _ in range(2)] == [b"[]", b"[]"]


def drip(connection: socket.socket) -> None:
    """Answer so slowly that each wait is short, and the response has no end."""
    with suppress(OSError):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)


def flood(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


@pytest.mark.parametrize(("answer", "limits"), [(drip, Limits(seconds=0.2)), (flood, Limits(size_bytes=100_000))])
def test_another_ramet_holds_no_step_up_whatever_it_sends(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None], limits: Limits
) -> None:
    monkeypatch.setattr(elsewhere, "_LIMITS", limits)
    with server(answer) as address:
        there = Address(address, "project", "public", Secret("secret"))
        with pytest.raises(Unavailable), elsewhere.open_elsewhere(there) as opened:
            opened.look("abcdefghij")


@pytest.mark.parametrize("status", [b"200 OK", b"403 Forbidden", b"404 Not Found", b"502 Bad Gateway"])
@pytest.mark.parametrize("content", [b"inside the network", b'{"status": "inside the network"}'])
def test_what_another_server_than_ramet_sends_is_no_part_of_the_error(status: bytes, content: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content))

    with server(answer) as address:
        there = Address(address, "project", "public", Secret("secret"))
        with pytest.raises(Unavailable) as caught, elsewhere.open_elsewhere(there) as opened:
            opened.look("abcdefghij")
    assert (caught.value.code, "inside" in str(caught.value)) == ("UNKNOWN_ANSWER", False)


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    with server(answer_once, answer_once) as address, closing(HttpTransport(address, 30)) as transport:
        for _ in range(2):
            assert transport.request("GET", "/x", None, {}).status == 200
            select.select([one.sock for one, _ in transport._idle], [], [])


def test_a_connection_that_the_server_may_be_about_to_close_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.client.transport._LONGEST_IDLE_SECONDS", 0.0)
    with server(answer_once, answer_once) as address, closing(HttpTransport(address, 30)) as transport:
        assert [transport.request("GET", "/x", None, {}).content for _ in range(2)] == [b"[]", b"[]"]


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\nX-Length: unknown\r\n\r\n[]",
    ],
    ids=["chunks", "an early response", "a connection that ends", "a content without a length"],
)
def test_a_response_is_read_in_each_form_of_http(response: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(response[:40])
        connection.sendall(response[40:])

    with server(answer, answer) as address, closing(HttpTransport(address, 30)) as transport:
        for _ in range(2):
            found = transport.request("POST", "/x", b"{}", {})
            assert (found.status, found.content, "x-early" in found.headers) == (200, b"[]", False)
            for one, _since in transport._idle:
                select.select([one.sock], [], [])


@pytest.mark.parametrize("response", [OK[:-1], OK[:20], b"SSH-2.0-OpenSSH\r\n", b"\x15\x03\x01"])
def test_what_is_no_whole_response_is_an_error(response: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(response)

    with (
        server(answer) as address,
        closing(HttpTransport(address, 30)) as transport,
        pytest.raises(ConnectionError, match="The server"),
    ):
        transport.request("GET", "/x", None, {})


def test_a_request_without_tls_imports_neither_tls_nor_idna() -> None:
    program = (
        "import sys; from ramet.client.transport import HttpTransport; "
        "print(HttpTransport(sys.argv[1], 30).request('GET', '/', None, {}).content.decode(), "
        "{'ssl', 'encodings.idna'} & set(sys.modules))"
    )
    with server(answer_once) as address:
        command = [sys.executable, "-c", program, address.replace("127.0.0.1", "localhost")]
        said = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert said.stdout == "[] set()\n"


def test_what_follows_a_response_is_no_part_of_it() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(OK + b"nonsense")

    with server(answer) as address, closing(HttpTransport(address, 30)) as transport:
        assert transport.request("GET", "/x", None, {}).content == b"[]"
        assert transport._idle == []


def test_a_server_that_hangs_up_is_named() -> None:
    with (
        server(lambda connection: None) as address,
        Client(address, "p", "k", "s") as client,
        pytest.raises(Unavailable, match="No Ramet answers at"),
    ):
        client.list_services()


def test_a_server_that_does_not_answer_in_time_is_named() -> None:
    done = threading.Event()

    def stay_silent(_: socket.socket) -> None:
        done.wait(30)

    with server(stay_silent) as address:
        with Client(address, "p", "k", "s", timeout_seconds=0.05) as client, pytest.raises(TimedOut, match=address):
            client.list_services()
        done.set()


def test_a_page_instead_of_an_answer_is_said_to_be_one() -> None:
    page = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(page)

    with server(serve) as address, Client(address, "p", "k", "s") as client, pytest.raises(ApiError) as caught:
        client.list_services()
    assert (caught.value.status, "page for browsers" in caught.value.details) == (404, True)


@pytest.mark.parametrize(
    "url", ["", "shop", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://a b", "http://h/\n"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not the URL of a Ramet server"):
        checked_address(url)


def test_what_is_no_authority_is_refused() -> None:
    with pytest.raises(Invalid, match="The authority is no certificate in PEM"):
        verification("-----BEGIN CERTIFICATE-----")


@pytest.mark.parametrize("key", ["schlüssel", "a\nb"])
def test_an_idempotency_key_that_no_header_can_have_is_refused(key: str) -> None:
    with Client("http://127.0.0.1:9", "p", "k", "s") as client, pytest.raises(Invalid, match="The idempotency key"):
        client.create_service("shop", idempotency_key=key)
