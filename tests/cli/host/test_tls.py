"""TLS of HTTP: verified by clients, exchanged without a restart, and within the limits of connections."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from ramet.app import Runtime
from ramet.backends.local.host.certificates import Authority, Issued, open_authority
from ramet.cli.host.http_protocol import Bounds
from ramet.cli.host.running import run_all, run_http, run_operations
from ramet.cli.host.tls import Files, ServerCertificate
from ramet.configured import authority_of, http_certificate, local_inventory
from ramet.errors import Failed, Invalid
from ramet.settings import Settings, load_settings
from tests.cli.served import MOST, Served, serving

_GET = b"GET /quick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Encrypted:
    """A server with TLS, its certificate, and what a client verifies it with."""

    served: Served
    certificate: ServerCertificate
    files: Files
    authority: Authority

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cadata=self.authority.pem)
        return context.wrap_socket(self.served.connect(), server_hostname="localhost")

    def ask(self, request: bytes = _GET) -> bytes:
        with self.connect() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: _received(connection), b""))

    def serial(self) -> str:
        with self.connect() as connection:
            shown = connection.getpeercert()
            assert shown
            return str(shown["serialNumber"])

    def replace(self, issued: Issued) -> None:
        self.files.key.write_text(issued.key)
        self.files.certificate.write_text(issued.certificate)
        self.certificate.refresh()


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Encrypted]:
    authority = open_authority(tmp_path / "secrets")
    files = Files(tmp_path / "http.crt", tmp_path / "http.key")
    issued = authority.issue("Ramet", ["localhost"], datetime.now(UTC))
    files.key.write_text(issued.key)
    files.certificate.write_text(issued.certificate)
    certificate = ServerCertificate(lambda: files)
    patient = Bounds(head_seconds=600, body_seconds=600, answer_seconds=600)
    with serving(patient, certificate) as served:
        yield Encrypted(served, certificate, files, authority)


def test_a_client_that_verifies_is_answered(encrypted: Encrypted) -> None:
    assert encrypted.ask().startswith(b"HTTP/1.1 200")


def test_another_certificate_is_used_without_a_restart(encrypted: Encrypted) -> None:
    before = encrypted.serial()
    encrypted.replace(encrypted.authority.issue("Ramet", ["localhost"], datetime.now(UTC)))
    assert encrypted.serial() != before
    assert encrypted.ask().startswith(b"HTTP/1.1 200")


def test_a_certificate_that_is_half_written_changes_nothing(encrypted: Encrypted) -> None:
    before = encrypted.serial()
    other = encrypted.authority.issue("Ramet", ["localhost"], datetime.now(UTC))
    encrypted.replace(Issued(other.certificate, "no key"))
    encrypted.files.key.unlink()
    encrypted.certificate.refresh()
    assert encrypted.serial() == before
    encrypted.replace(other)
    assert encrypted.serial() != before


def test_what_is_refused_is_answered_with_tls_too(encrypted: Encrypted) -> None:
    with encrypted.connect() as connection:
        connection.sendall(b"not http\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 400")


def test_clients_without_a_handshake_make_room_for_others(encrypted: Encrypted) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(encrypted.served.connect()) for _ in range(MOST * 3)]
        silent[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert encrypted.ask().startswith(b"HTTP/1.1 200")


def test_many_clients_with_and_without_tls_are_told_apart(encrypted: Encrypted) -> None:
    for _ in range(10):
        with encrypted.served.connect() as plain:
            plain.sendall(_GET)
            assert not plain.recv(4096).startswith(b"HTTP")
        assert encrypted.ask().startswith(b"HTTP/1.1 200")


def test_auto_makes_a_certificate_of_the_authority_for_all_names(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path, tls_cert="auto", endpoint_host="db.example.com", host="0.0.0.0")  # noqa: S104 - a wildcard is no name
    files = Files(*http_certificate(settings))
    first = files.certificate.read_bytes()
    assert Files(*http_certificate(settings)).certificate.read_bytes() == first
    pem, key = files.certificate.read_bytes(), files.key.read_bytes()
    names = ["db.example.com", socket.gethostname(), "localhost"]
    assert open_authority(tmp_path / "secrets").still_serves(pem, key, names, datetime.now(UTC))
    assert files.key.stat().st_mode & 0o077 == 0
    moved = load_settings({}, data_dir=tmp_path, tls_cert="auto", endpoint_host="db2.example.com")
    assert http_certificate(moved)[0].read_bytes() != first


def test_an_authority_that_has_expired_is_not_replaced_under_a_running_process(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path, tls_cert="auto", storage_driver="copy")
    expired = open_authority(tmp_path / "secrets", datetime(2000, 1, 1, tzinfo=UTC))
    certificate = ServerCertificate(lambda: Files(*http_certificate(settings)))
    certificate.refresh()
    local_inventory(settings)
    assert authority_of(settings).pem == expired.pem


@pytest.mark.parametrize("name", ["ca.key", "ca.crt"])
@pytest.mark.parametrize("is_locked", [False, True])
def test_a_damaged_authority_ends_no_running_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, is_locked: bool
) -> None:
    settings = load_settings({}, data_dir=tmp_path, tls_cert="auto", storage_driver="copy")
    certificate = ServerCertificate(lambda: Files(*http_certificate(settings)))
    context, content = certificate.context, b"half"
    if is_locked:
        password = serialization.BestAvailableEncryption(b"secret")
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        content = authority_of(settings).key.private_bytes(encoding, form, password)
    (tmp_path / "secrets" / name).write_bytes(content)
    certificate.refresh()
    assert "HTTP keeps its certificate: The certificate authority in" in caplog.text
    assert certificate.context is context


@pytest.mark.parametrize("start", [partial(run_all, credentials_file=None), run_http, run_operations])
def test_each_start_replaces_an_authority_that_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[Settings], None]
) -> None:
    def fail(_settings: Settings) -> None:
        raise Failed("NO_STORE", "The store cannot be opened")

    monkeypatch.setattr(Runtime, "open", fail)
    expired = open_authority(tmp_path / "secrets", datetime(2000, 1, 1, tzinfo=UTC))
    settings = load_settings({}, data_dir=tmp_path, tls_cert="auto", port=0)
    with pytest.raises(Failed):
        start(settings)
    authority = open_authority(tmp_path / "secrets")
    assert authority.pem != expired.pem
    if (tmp_path / "secrets" / "http.crt").exists():
        pem, key = (path.read_bytes() for path in http_certificate(settings))
        assert authority.still_serves(pem, key, ["localhost"], datetime.now(UTC))


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = str(tmp_path / "file")
    for given, wrong in (({"tls_cert": "auto", "tls_key": file}, "auto"), ({"tls_cert": file}, "KEY is missing")):
        with pytest.raises(Invalid, match=wrong):
            http_certificate(load_settings({}, data_dir=tmp_path, **given))
    with pytest.raises(Invalid, match="cannot be used"):
        ServerCertificate(lambda: Files(tmp_path / "file", tmp_path / "file"))


def _received(connection: ssl.SSLSocket) -> bytes:
    try:
        return connection.recv(65536)
    except (ssl.SSLEOFError, ConnectionResetError):
        return b""
