"""Certificates: of a local authority, for the names that an endpoint has, renewed in time."""

import stat
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from ramet.backends.local.host.certificates import Authority, Issued, open_authority, replace_expired_authority
from ramet.backends.local.server.instances import Instances
from ramet.errors import Failed
from ramet.model.passwords import new_password
from tests.backends.local.hosts import boot, connect, new_server, restart

NOW = datetime.now(UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return open_authority(tmp_path / "secrets", NOW)


def pair(issued: Issued) -> tuple[bytes, bytes]:
    return issued.certificate.encode(), issued.key.encode()


def test_the_authority_is_made_once_and_kept_private(tmp_path: Path, authority: Authority) -> None:
    again = open_authority(tmp_path / "secrets")
    assert again.pem == authority.pem
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "secrets" / "ca.key").stat().st_mode) == 0o600


def test_an_authority_with_a_key_of_another_kind_is_damaged(tmp_path: Path, authority: Authority) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(encoding, form, serialization.NoEncryption())
    (tmp_path / "secrets" / "ca.key").write_bytes(other)
    with pytest.raises(Failed, match="not an elliptic curve key") as failed:
        open_authority(tmp_path / "secrets")
    assert failed.value.code == "AUTHORITY_DAMAGED"


@pytest.mark.parametrize("host", ["localhost", "db.example.com", "192.0.2.7", "2001:db8::1"])
def test_a_certificate_serves_its_host_until_it_nears_its_end(authority: Authority, host: str) -> None:
    pem, key = pair(authority.issue("abcdefghij", [host], NOW))
    assert authority.still_serves(pem, key, [host], NOW)
    assert authority.still_serves(pem, key, ["localhost"], NOW)
    assert not authority.still_serves(pem, key, ["elsewhere.example.com"], NOW)
    assert not authority.still_serves(pem, key, [host], NOW + timedelta(days=800))


def test_what_was_made_while_the_clock_was_ahead_is_replaced_and_its_authority_is_valid(tmp_path: Path) -> None:
    ahead = NOW + timedelta(days=900)
    authority = open_authority(tmp_path / "secrets", ahead)
    assert authority.certificate.not_valid_before_utc < NOW
    pem, key = pair(authority.issue("abcdefghij", ["localhost"], ahead))
    assert authority.still_serves(pem, key, ["localhost"], ahead)
    assert not authority.still_serves(pem, key, ["localhost"], NOW)


def test_an_authority_that_was_made_while_the_clock_was_far_behind_is_replaced_and_kept(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    expired = open_authority(secrets, datetime(2000, 1, 1, tzinfo=UTC))
    assert open_authority(secrets, NOW).pem == expired.pem  # a running process goes on with it
    replace_expired_authority(secrets, NOW)
    authority = open_authority(secrets, NOW)
    assert authority.certificate.not_valid_before_utc < NOW < authority.certificate.not_valid_after_utc
    pem, key = pair(authority.issue("abcdefghij", ["localhost"], NOW))
    assert open_authority(secrets, NOW).still_serves(pem, key, ["localhost"], NOW)
    assert not expired.still_serves(pem, key, ["localhost"], NOW)
    for name in ("ca.crt", "ca.key"):  # where the clock is ahead instead, they can be put back
        (secrets / f"{name}.expired").rename(secrets / name)
    replace_expired_authority(secrets, datetime(2001, 1, 1, tzinfo=UTC))
    assert open_authority(secrets, datetime(2001, 1, 1, tzinfo=UTC)).pem == expired.pem
    assert stat.S_IMODE((secrets / "ca.key").stat().st_mode) == 0o600


def test_what_is_no_certificate_of_ours_is_replaced(tmp_path: Path, authority: Authority) -> None:
    stranger = open_authority(tmp_path / "others", NOW).issue("abcdefghij", ["localhost"], NOW)
    assert not authority.still_serves(*pair(stranger), "localhost", NOW)
    assert "PRIVATE" not in repr(stranger)


def test_what_a_power_cut_spoiled_is_replaced(authority: Authority) -> None:
    pem, key = pair(authority.issue("abcdefghij", ["localhost"], NOW))
    _, other_key = pair(authority.issue("abcdefghij", ["localhost"], NOW))
    for spoiled in (b"", b"torn", bytes(len(pem))):
        assert not authority.still_serves(spoiled, key, ["localhost"], NOW)
        assert not authority.still_serves(pem, spoiled, ["localhost"], NOW)
    assert not authority.still_serves(pem, other_key, ["localhost"], NOW)


def test_an_independent_program_accepts_the_chain(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "server.crt").write_text(authority.issue("abcdefghij", ["db.example.com"], NOW).certificate)
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(tmp_path / "secrets" / "ca.crt"),
               "-verify_hostname", "db.example.com", str(tmp_path / "server.crt")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_client_can_verify_an_endpoint_and_a_new_host_gets_a_new_certificate(
    instances: Instances, tmp_path: Path
) -> None:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    (tmp_path / "ca.crt").write_text(instances.authority.pem)
    connect(server, password, sslmode="verify-full", sslrootcert=str(tmp_path / "ca.crt")).close()
    certificate = instances.paths(server.service_id).tls / "server.crt"
    first = certificate.read_text()
    assert instances.stop(server, 20)
    restart(instances, server)
    assert certificate.read_text() == first
    assert instances.stop(server, 20)
    restart(instances, replace(server, host="127.0.0.2"))
    assert certificate.read_text() != first
    instances.remove(server.service_id, 10)
