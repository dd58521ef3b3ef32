"""Connections through a program in a pod, over a WebSocket."""

import logging
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpcore2
import pytest
from httpx2.websockets import HTTPXWSException, WebSocketSession

from harness.kubernetes.certificates import self_signed
from harness.waiting import eventually
from ramet.backends.kubernetes.tunnel import Tunnels
from tests.backends.kubernetes.api_server import api_server


@contextmanager
def echo(path: Path) -> Iterator[None]:
    """Serve connections that send back what they receive, and hang up at its end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve(accepted: socket.socket) -> None:
            with accepted:
                while data := accepted.recv(65536):
                    accepted.sendall(data)

        def accept() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(accepted,), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def tunnels(caplog: pytest.LogCaptureFixture) -> Iterator[Tunnels]:
    caplog.set_level(logging.DEBUG, "ramet")  # it says why there is no connection
    certificate = self_signed("kube-apiserver", ["127.0.0.1"])
    with TemporaryDirectory() as directory, api_server(certificate) as (_, api), echo(Path(directory, "s")):
        found = Tunnels(api, lambda service_id: f"{service_id}-1", f"{directory}/s")
        yield found
        found.close()


def received(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length and (data := connection.recv(65536)):
        found += data
    return found


def connected(tunnels: Tunnels, service_id: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(tunnels.paths(service_id, 15).sockets / ".s.PGSQL.5432"))
    return connection


def test_bytes_go_through_in_both_directions_at_once_and_in_order(tunnels: Tunnels) -> None:
    sent = os.urandom(5_000_000)
    with connected(tunnels, "abcdefghij") as connection:
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        assert received(connection, len(sent)) == sent


def test_a_server_may_send_all_its_answers_before_it_reads(tunnels: Tunnels, tmp_path: Path) -> None:
    length = 5_000_000
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.settimeout(30)
        tunnels._server_socket = str(tmp_path / "s")
        with connected(tunnels, "abcdefghij") as connection:
            threading.Thread(target=connection.sendall, args=(bytes(length),), daemon=True).start()
            server, _ = listener.accept()
            server.settimeout(30)
            with server:
                threading.Thread(target=server.sendall, args=(bytes(length),), daemon=True).start()
                assert received(connection, length) == bytes(length)
                assert received(server, length) == bytes(length)


def test_several_connections_do_not_mix(tunnels: Tunnels) -> None:
    with connected(tunnels, "abcdefghij") as one, connected(tunnels, "klmnopqrst") as other:
        one.sendall(b"one")
        other.sendall(b"other")
        assert (received(other, 5), received(one, 3)) == (b"other", b"one")


def test_a_connection_ends_when_the_server_cannot_be_reached(tunnels: Tunnels) -> None:
    tunnels._server_socket = "/nowhere"
    with connected(tunnels, "abcdefghij") as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize("fails_first", ["ping", "input"])
def test_a_connection_ends_when_nothing_can_be_sent_to_the_server(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch, fails_first: str
) -> None:
    channel = tunnels._api.channel

    def fail(*_: object) -> None:
        raise httpcore2.WriteError("Broken pipe")

    @contextmanager
    def broken(pod: str, command: Sequence[str]) -> Iterator[WebSocketSession]:
        with channel(pod, command) as found:
            monkeypatch.setattr(found.stream, "write", fail)
            if fails_first == "ping":  # as its own thread sends one
                with suppress(HTTPXWSException):
                    found.ping()
            yield found

    monkeypatch.setattr(tunnels._api, "channel", broken)
    with connected(tunnels, "abcdefghij") as connection:
        if fails_first == "input":
            connection.sendall(b"a question")
        assert connection.recv(1) == b""


def test_the_files_of_a_server_are_written_again_when_tmp_was_cleaned(tunnels: Tunnels) -> None:
    data = tunnels.paths("abcdefghij", 15).data
    written = {path.name: path.read_text() for path in data.iterdir()}
    shutil.rmtree(data)
    assert tunnels.paths("abcdefghij", 15).data == data
    assert {path.name: path.read_text() for path in data.iterdir()} == written
    assert set(written) == {"PG_VERSION", "postmaster.pid"}


def test_only_this_user_can_enter_and_nothing_is_left(tunnels: Tunnels) -> None:
    paths = tunnels.paths("abcdefghij", 15)
    assert paths.root.parent.stat().st_mode & 0o777 == 0o700
    tunnels.forget("abcdefghij")
    assert not paths.root.exists()
    tunnels.close()
    eventually(lambda: not paths.root.parent.exists())


@pytest.mark.parametrize("name", ["tunnel-abcdefghij", "tunnel-input"])
def test_a_connection_for_which_no_thread_can_be_started_ends_and_later_ones_work(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with connected(tunnels, "abcdefghij") as connection:
            assert connection.recv(1) == b""
    with connected(tunnels, "abcdefghij") as connection:
        connection.sendall(b"later")
        assert received(connection, 5) == b"later"


def test_connections_are_accepted_after_a_first_call_that_could_start_no_thread(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            tunnels.root()
    with connected(tunnels, "abcdefghij") as connection:
        connection.sendall(b"now")
        assert received(connection, 3) == b"now"
