"""The recovery key of an installation, and what it encrypts: AES-256 in GCM mode (NIST SP 800-38D)."""

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ramet.errors import Invalid
from ramet.machine.secret_files import kept_secret, replace_secret
from ramet.model.passwords import Secret
from ramet.recovery.catalogue import Sealed, Secrets

KEY_FILE = "archive.key"
_USED = "archive.key-id"
_KEY_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True)
class RecoveryKey:
    """The key that opens the secrets of a catalogue."""

    secret: Secret

    @property
    def key_id(self) -> str:
        """What tells this key from others, and nothing about it."""
        return hashlib.sha256(b"ramet recovery key\0" + self._bytes()).hexdigest()[:16]

    def seal(self, content: Secrets, installation: str) -> Sealed:
        """Encrypt the secrets of an installation."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        encrypted = AESGCM(self._bytes()).encrypt(nonce, msgspec.json.encode(content), installation.encode())
        return Sealed(key_id=self.key_id, nonce=nonce, content=encrypted)

    def unseal(self, sealed: Sealed, installation: str) -> Secrets:
        """Decrypt the secrets of an installation. Raises Invalid for another key, and for altered content."""
        if sealed.key_id != self.key_id:
            raise Invalid(
                "WRONG_ARCHIVE_KEY",
                f"The recovery key {self.key_id} is not the one that the archive was encrypted with, {sealed.key_id}",
                "Name the file with the right one in RAMET_ARCHIVE_KEY_FILE, or recover with --without-key.",
            )
        try:
            content = AESGCM(self._bytes()).decrypt(sealed.nonce, sealed.content, installation.encode())
        except InvalidTag as error:
            raise Invalid(
                "CATALOGUE_DAMAGED",
                "The secrets in the catalogue of the archive were altered",
                "Recover with --without-key.",
            ) from error
        return msgspec.json.decode(content, type=Secrets)

    def _bytes(self) -> bytes:
        return base64.urlsafe_b64decode(self.secret.reveal() + "=")


def read_key(path: Path) -> RecoveryKey:
    """Return the key in a file, as `ramet archive key` prints it. Raises Invalid."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid("INVALID_ARCHIVE_KEY", f"The recovery key in {path} cannot be read: {error}") from error
    try:
        is_key = len(base64.b64decode(text + "=", altchars=b"-_", validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise Invalid(
            "INVALID_ARCHIVE_KEY",
            f"{path} does not hold a recovery key",
            "It must hold the 43 characters that 'ramet archive key' printed.",
        )
    return RecoveryKey(Secret(text))


def ensure_key(directory: Path) -> RecoveryKey:
    """Return the recovery key of an installation, which the first call makes in its directory of secrets.

    Raises Invalid rather than making one where the catalogue is encrypted with a key that somebody keeps elsewhere.
    """
    path, used = directory / KEY_FILE, directory / _USED
    if used.exists() and not path.exists():
        key_id = used.read_text()
        raise Invalid(
            "WRONG_ARCHIVE_KEY",
            f"The catalogue of the archive is encrypted with the recovery key {key_id}, and {path} is missing",
            "Name the file with that key in RAMET_ARCHIVE_KEY_FILE. If the key is lost, remove"
            f" {used}, and keep what 'ramet archive key' prints then.",
        )
    kept_secret(path, lambda: base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).rstrip(b"=") + b"\n")
    return read_key(path)


def note_use(directory: Path, key: RecoveryKey) -> None:
    """Record in the directory of secrets of an installation which key its catalogue is encrypted with."""
    replace_secret(directory / _USED, key.key_id.encode())


def demand_used(directory: Path, path: Path) -> None:
    """Raise Invalid unless a file has the key that the catalogue is encrypted with, where there is a catalogue."""
    if not (directory / _USED).exists():
        return
    used = (directory / _USED).read_text()
    found = read_key(path).key_id if path.exists() else "none"
    if found != used:
        raise Invalid(
            "WRONG_ARCHIVE_KEY",
            f"The catalogue of the archive is encrypted with the recovery key {used}, and {path} has {found}",
            "Set RAMET_ARCHIVE_KEY_FILE as it is for the running Ramet, for example with"
            " 'set -a; . /etc/ramet/ramet.env'. After a change of the key, start Ramet first.",
        )
