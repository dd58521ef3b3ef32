"""TLS connections that several threads use."""

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from harness.kubernetes.certificates import self_signed
from ramet.backends.kubernetes.shared_tls import SharedSocket
from tests.backends.kubernetes.api_server import api_server


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    made = self_signed("server", ["localhost"])
    certificate, both = tmp_path / "certificate", tmp_path / "both"
    certificate.write_bytes(made.certificate)
    both.write_bytes(made.certificate + made.key)
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(both)
    client_context = ssl.create_default_context(cafile=certificate)
    client_context.sslsocket_class = SharedSocket
    one, other = socket.socketpair()
    with ThreadPoolExecutor() as pool:
        served = pool.submit(server_context.wrap_socket, other, server_side=True)
        client = client_context.wrap_socket(one, server_hostname="localhost")
        with client, served.result() as server:
            yield client, server


def test_a_thread_that_reads_a_closed_connection_takes_nothing_from_the_next_one(
    pair: tuple[ssl.SSLSocket, ssl.SSLSocket],
) -> None:
    client, server = pair
    ended: list[object] = []

    def read() -> None:
        try:
            ended.append(client.recv(100))
        except OSError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.1)  # it waits for bytes now; if not, this test proves less, and does not fail
    number = client.fileno()
    client.close()
    one, other = socket.socketpair()
    with one, other:
        assert number in (one.fileno(), other.fileno()), "the next socket has the number of the closed one"
        one.sendall(b"one")
        other.sendall(b"other")
        with suppress(OSError):  # the close was noticed
            server.sendall(b"late")
        reader.join(30)
        assert not reader.is_alive()
        assert isinstance(ended[0], OSError)
        assert (one.recv(100), other.recv(100)) == (b"other", b"one")


def test_a_read_that_begins_during_another_call_waits_as_long_as_any(
    pair: tuple[ssl.SSLSocket, ssl.SSLSocket],
) -> None:
    client, server = pair
    assert isinstance(client, SharedSocket)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(client.recv(100)))
    with client._turn:
        socket.socket.settimeout(client, 0)  # as it is during a call
        reader.start()
        time.sleep(0.1)  # the read has begun, as below; if not, this test proves less, and does not fail
        socket.socket.settimeout(client, None)
    time.sleep(0.1)
    server.sendall(b"late")
    reader.join(30)
    assert found == [b"late"]


def test_a_read_and_a_full_write_wait_no_longer_than_their_time_limit(
    pair: tuple[ssl.SSLSocket, ssl.SSLSocket],
) -> None:
    client, _ = pair
    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(1)
    with pytest.raises(TimeoutError):
        client.sendall(bytes(10_000_000))


def test_many_programs_at_once_over_tls_get_their_own_bytes() -> None:
    def run(number: int) -> int:
        right = 0
        for _ in range(12):
            data = os.urandom(3000)
            with api.channel(f"pod-{number}", ["perl", "-e", "sysread STDIN, $_, 9999; print"]) as channel:
                channel.send_bytes(b"\0" + data)
                right += channel.receive_bytes() == b"\1" + data
        return right

    with api_server(self_signed("kube-apiserver", ["127.0.0.1"])) as (_, api), ThreadPoolExecutor(5) as pool:
        assert list(pool.map(run, range(5))) == [12] * 5
