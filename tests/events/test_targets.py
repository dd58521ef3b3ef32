"""Which targets webhooks may reach, and that one that may not is never connected to."""

import ipaddress
import socket
import threading

import pytest

from ramet.events.sender import Response, Sender
from ramet.events.targets import Unreachable, is_public, resolve

PRIVATE = """
    127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 198.18.0.1 192.0.0.8
    192.0.2.1 203.0.113.1 224.0.0.1 255.255.255.255 240.0.0.1
    ::1 :: ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::1 2002:7f00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 fe80::1 fc00::1 fd00:ec2::254 fec0::1 ff02::1
    2001:db8::1 100::1 3fff::1 5f00::1
"""
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", PRIVATE.split())
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def _names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let each look-up of a name have the next answer; return the names that were looked up."""
    asked: list[str] = []
    left, real = list(answers), socket.getaddrinfo

    def look_up(host: str, port: int, *more: int, **named: int) -> list[object]:
        if host[0].isdigit():
            return list(real(host, port, *more, **named))
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr("ramet.events.targets.socket.getaddrinfo", look_up)
    return asked


def test_one_private_address_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    _names(monkeypatch, ["1.1.1.1", "10.0.0.1"])
    with pytest.raises(Unreachable, match=r"10\.0\.0\.1"):
        resolve("rebind.example", 443, [], encrypted=True)


def test_without_tls_only_permitted_private_addresses_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    _names(monkeypatch, ["1.1.1.1"])
    with pytest.raises(Unreachable, match="https"):
        resolve("example.com", 80, [], encrypted=False)
    _names(monkeypatch, ["10.0.0.1"])
    assert resolve("hooks.lan", 80, [ipaddress.ip_network("10.0.0.0/8")], encrypted=False) == "10.0.0.1"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0x7f000001:{port}/",
        "http://2130706433:{port}/",
        "http://127.1:{port}/",
        "http://0:{port}/",
        "https://127.0.0.1:{port}/",
    ],
)
def test_this_host_is_never_connected_to(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        response = Sender(seconds=5).send(url.format(port=server.getsockname()[1]), {}, b"{}")
        assert response.status is None
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_name_is_looked_up_once_and_its_address_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _names(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answering = threading.Thread(target=_answer_once, args=(server,), daemon=True)
        answering.start()
        sender = Sender([ipaddress.ip_network("127.0.0.0/8")], seconds=30)
        assert sender.send(f"http://rebind.example:{port}/", {}, b"{}").status == 200
        answering.join()
    assert asked == ["rebind.example"]


def _answer_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


def _drip(server: socket.socket, parts: bytes, ended: threading.Event) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        try:
            while not ended.is_set():
                connection.sendall(parts)
                ended.wait(0.01)
        except OSError:
            return


def _sent_to_one_that_drips(parts: bytes, seconds: float) -> Response:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=_drip, args=(server, parts, ended), daemon=True)
        dripping.start()
        sender = Sender([ipaddress.ip_network("127.0.0.0/8")], seconds=seconds)
        response = sender.send(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}")
        ended.set()
        dripping.join()
    return response


@pytest.mark.parametrize("head", [b"H", b"HTTP/1.1 200 OK\r\nx: "])
def test_a_target_that_drips_its_answer_is_given_up(head: bytes) -> None:
    response = _sent_to_one_that_drips(head, 0.5)
    assert response.status is None
    assert response.error is not None


def test_an_endless_answer_is_not_read() -> None:
    response = _sent_to_one_that_drips(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65536, 30)
    assert response.status == 200
