"""The relay hides channel binding from its clients, in whatever pieces the offer arrives."""

import contextlib
import errno
import fcntl
import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.host.certificates import open_authority
from ramet.backends.local.sources import relay, sources
from ramet.backends.local.sources.relay import PORT, Relay, _Authentication, _pump, open_relay
from ramet.backends.local.subscriptions.publisher import open_session
from ramet.errors import Invalid
from ramet.model.passwords import Secret

PLUS, PLAIN = b"SCRAM-SHA-256-PLUS\0", b"SCRAM-SHA-256\0"


def offer(*mechanisms: bytes) -> bytes:
    body = struct.pack("!i", 10) + b"".join(mechanisms) + b"\0"
    return b"R" + struct.pack("!i", len(body) + 4) + body


@pytest.mark.parametrize("size", [1, 4, 7, 1000])
def test_an_offer_of_channel_binding_arrives_without_it(size: int) -> None:
    sent, reply = offer(PLUS, PLAIN) + b"rest", _Authentication()
    passed = b"".join(reply.passed(sent[at : at + size]) for at in range(0, len(sent), size))
    assert passed == offer(PLAIN) + b"rest"


@pytest.mark.parametrize(
    "sent",
    [offer(PLAIN), b"R\0\0\0\x08\0\0\0\0", b"E\0\0\0\x05\0", b"R\0\0\0\x0c\0\0\0\x05salt"],
    ids=["no binding", "trusted", "error", "md5"],
)
def test_other_answers_pass_unchanged(sent: bytes) -> None:
    assert _Authentication().passed(sent) == sent


@pytest.mark.parametrize("length", [2001, 0xFFFFFFFF])
def test_an_authentication_message_that_no_client_accepts_is_not_kept_until_it_is_whole(
    tmp_path: Path, length: int
) -> None:
    def serve() -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.recv(1000)
            client.sendall(b"R" + struct.pack("!I", length))
            client.recv(1)  # until the client has gone

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = SourceAddress("127.0.0.1", listener.getsockname()[1], "shop", "app", "disable")
        with open_relay(address, tmp_path), pytest.raises(psycopg.OperationalError, match="authentication request"):
            psycopg.connect(host=str(tmp_path), port=PORT, user="app", password="x", dbname="shop", connect_timeout=20)


def test_a_source_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_EXAMINE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = SourceAddress("127.0.0.1", silent.getsockname()[1], "shop", "app", "disable")
        with pytest.raises(Invalid, match=r"could not be examined: it did not answer within 0\.2 seconds"):
            sources.examine(address, Secret("x"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(b"", "it did not answer within 0.3 seconds"), (b"D" + b"\x00\x01" * 50_000, "it answered with more than 0 MiB")],
    ids=["silence", "a flood"],
)
def test_a_session_in_a_source_ends_whatever_the_source_does_once_it_has_logged_in(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, problem: str
) -> None:
    monkeypatch.setattr(relay, "_MOST_OF_A_SESSION", 50_000)

    def serve() -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.recv(1000)
            client.sendall(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
            client.recv(1000)
            while answer:
                client.sendall(answer)
            client.recv(1)  # until the relay cuts it

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = SourceAddress("127.0.0.1", listener.getsockname()[1], "shop", "app", "disable")
        seconds = 20.0 if answer else 0.3
        with (
            pytest.raises(psycopg.OperationalError, match=problem),
            open_session(address, Secret("x"), seconds) as session,
        ):
            session.execute("SELECT 1")


def test_a_relay_whose_process_has_more_than_a_thousand_files_open_passes_bytes_on(tmp_path: Path) -> None:
    relayed = Relay(SourceAddress("localhost", 1, "shop", "app", "disable"), tmp_path)
    (client, near), (far, source) = socket.socketpair(), socket.socketpair()
    with client, near, far, source, many_files(), numbered(near, 1100) as high_near, numbered(far, 1101) as high_far:
        client.sendall(b"hello")
        client.shutdown(socket.SHUT_WR)
        _pump(relayed, high_near, high_far)
        assert source.recv(100) == b"hello"
        assert source.recv(100) == b""


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def numbered(one: socket.socket, number: int) -> socket.socket:
    """Return the same connection with at least this file descriptor."""
    return socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, number))


def test_a_client_that_speaks_after_the_session_tickets_of_tls_is_heard(tmp_path: Path) -> None:
    """The source sends tickets with its handshake and then waits: to wait for more of it would stop both sides."""
    issued = open_authority(tmp_path / "secrets").issue("source", ["localhost"], datetime.now(UTC))
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    certificate.write_text(issued.certificate)
    key.write_text(issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    shaken = threading.Event()

    def serve() -> None:
        plain, _ = listener.accept()
        plain.recv(8)
        plain.sendall(b"S")
        with context.wrap_socket(plain, server_side=True) as client:
            shaken.set()
            client.sendall(client.recv(100).upper())

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as client:
        threading.Thread(target=serve, daemon=True).start()
        address = SourceAddress("localhost", listener.getsockname()[1], "shop", "app", "require")
        with open_relay(address, tmp_path):
            client.settimeout(20)
            client.connect(str(tmp_path / f".s.PGSQL.{PORT}"))
            assert shaken.wait(20)
            time.sleep(0.1)  # a relay that read the tickets as if bytes must follow would stand still by now
            client.sendall(b"hello")
            assert client.recv(100) == b"HELLO"


def test_a_client_for_which_no_thread_can_be_started_is_cut_and_later_ones_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(_relay: Relay, client: socket.socket) -> None:
        with client:
            client.sendall(b"served")

    monkeypatch.setattr(relay, "_serve", serve)
    start, refused = threading.Thread.start, ["one"]

    def fail_once(thread: threading.Thread) -> None:
        if thread.name == "relay" and threading.current_thread().name == "relay" and refused:
            refused.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    with open_relay(SourceAddress("localhost", 1, "shop", "app", "disable"), tmp_path):
        for answer in (b"", b"served"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(str(tmp_path / f".s.PGSQL.{PORT}"))
                assert client.recv(6) == answer


def test_a_relay_ends_while_no_file_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_listener: socket.socket) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def open_and_end() -> None:
        with open_relay(SourceAddress("localhost", 1, "shop", "app", "disable"), tmp_path):
            pass

    monkeypatch.setattr(socket.socket, "accept", refuse)
    opened = threading.Thread(target=open_and_end, daemon=True)
    opened.start()
    opened.join(10)
    assert not opened.is_alive()


def test_a_client_that_comes_while_no_file_is_free_is_served_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, refusals = socket.socket.accept, [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    def refuse_once(listener: socket.socket) -> tuple[socket.socket, object]:
        if refusals:
            raise refusals.pop()
        return accept(listener)

    def serve(_relay: Relay, client: socket.socket) -> None:
        with client:
            client.sendall(b"served")

    monkeypatch.setattr(relay, "_serve", serve)
    monkeypatch.setattr(socket.socket, "accept", refuse_once)
    address = SourceAddress("localhost", 1, "shop", "app", "disable")
    with open_relay(address, tmp_path), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(tmp_path / f".s.PGSQL.{PORT}"))
        assert client.recv(6) == b"served"
