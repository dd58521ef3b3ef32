"""The local certificate authority of a data root, and a server certificate for each service."""

import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ramet.backends.local.host import files
from ramet.errors import Failed

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 825
# A clock that is ahead when certificates are made is set back later, and clients of the authority keep its certificate.
_AUTHORITY_DAYS_BEFORE = 3650
_SERVER_DAYS_BEFORE = 1
_RENEW_BEFORE = timedelta(days=60)
_log = logging.getLogger(__name__)
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM. The key must stay private."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Issued(***)"


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs server certificates; clients verify them with `certificate`."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """The authority's certificate, for clients."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def sha256_fingerprint(self) -> str:
        """The fingerprint of the certificate."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def issue(self, common_name: str, hosts: Sequence[str], now: datetime) -> Issued:
        """Return a certificate that is valid for these hosts and for the local names of this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general_name(name) for name in dict.fromkeys((*_LOCAL_NAMES, *hosts))]
        certificate = (
            _builder(common_name, self.certificate.subject, key, now, _SERVER_DAYS_BEFORE, _SERVER_DAYS)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Issued(certificate.public_bytes(serialization.Encoding.PEM).decode(), _key_pem(key))

    def still_serves(self, certificate_pem: bytes, key_pem: bytes, hosts: Sequence[str], now: datetime) -> bool:
        """Tell whether this authority issued a certificate for its key and these hosts that is valid, and stays so."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            certificate.verify_directly_issued_by(self.certificate)
            key = serialization.load_pem_private_key(key_pem, None)
            if key.public_key() != certificate.public_key():
                return False
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except Exception:  # noqa: BLE001 - a new one replaces it, whatever is wrong
            return False
        return (
            all(_general_name(host) in names for host in hosts)
            and certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEW_BEFORE
        )

    def renew(self, certificate: Path, key: Path, common_name: str, hosts: Sequence[str]) -> bool:
        """Issue a certificate for these hosts unless that in the files serves them; tell whether it was issued."""
        now = datetime.now(UTC)
        found, found_key = (files.read(path, errors="replace").encode() for path in (certificate, key))
        if self.still_serves(found, found_key, hosts, now):
            return False
        issued = self.issue(common_name, hosts, now)
        # Not flushed: after a power failure an invalid certificate is replaced.
        files.write(key, issued.key)
        files.write(certificate, issued.certificate)
        return True


def open_authority(secrets: Path, now: datetime | None = None) -> Authority:
    """Return the authority in a private directory; the first call creates it. Safe for concurrent processes."""
    secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.locked(secrets / "ca.lock"):
        if not (secrets / "ca.crt").exists():
            _make(secrets, now or datetime.now(UTC))
        return _authority_in(secrets)


def replace_expired_authority(secrets: Path, now: datetime | None = None) -> None:
    """Replace an authority that has expired: no client can verify anything with it. It is kept: a clock may be wrong.

    Only for a process that begins: a running one uses its authority until it ends, also where its clock is ahead.
    """
    certificate, present = secrets / "ca.crt", now or datetime.now(UTC)
    if not certificate.exists():
        return
    with files.locked(secrets / "ca.lock"):
        if certificate.exists() and present >= _authority_in(secrets).certificate.not_valid_after_utc:
            _put_aside(secrets)
            _make(secrets, present)


def _authority_in(secrets: Path) -> Authority:
    try:
        key = serialization.load_pem_private_key((secrets / "ca.key").read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate((secrets / "ca.crt").read_bytes())
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("its key is not an elliptic curve key")
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Failed(
            "AUTHORITY_DAMAGED",
            f"The certificate authority in {secrets} cannot be read: {error}",
            "Restore ca.key and ca.crt from a backup of the data directory.",
        ) from error
    return Authority(certificate, key)


def _put_aside(secrets: Path) -> None:
    for name in ("ca.key", "ca.crt"):
        files.write(secrets / f"{name}.expired", (secrets / name).read_bytes(), durable=True)
    _log.warning("the certificate authority has expired, and is replaced: clients need the new one ('ramet ca')")
    (secrets / "ca.crt").unlink()  # its key is replaced before it: after a crash in between, both are made


def issue_for_http(authority: Authority, directory: Path, hosts: Sequence[str]) -> tuple[Path, Path]:
    """Return the files of a certificate for these hosts and of its key; they are made again where they do not serve."""
    certificate, key = directory / "http.crt", directory / "http.key"
    with files.locked(directory / "ca.lock"):
        authority.renew(certificate, key, "Ramet", hosts)
    return certificate, key


def _make(secrets: Path, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Ramet local authority")])
    certificate = (
        _builder("Ramet local authority", name, key, now, _AUTHORITY_DAYS_BEFORE, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_signing_only(), critical=True)
        .sign(key, hashes.SHA256())
    )
    files.write(secrets / "ca.key", _key_pem(key), durable=True)
    files.write(secrets / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM), durable=True)


def _builder(
    common_name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days_before: int, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=days_before))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signing_only() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
