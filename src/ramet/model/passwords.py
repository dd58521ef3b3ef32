"""Passwords and their SCRAM verifiers (RFC 5802, RFC 7677)."""

import base64
import hashlib
import hmac
import secrets
import string

from ramet.model.saslprep import prepared
from ramet.model.secret import Secret

__all__ = [
    "Secret",
    "derived_password",
    "is_password_of",
    "new_password",
    "scram_verifier",
    "unusable_verifier",
]

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 24
_ITERATIONS = 4096
_VERIFIER_PARTS = 5


def new_password(length: int = _LENGTH) -> Secret:
    """Return a random password of letters and digits: 24 of them have 142 bits."""
    return Secret("".join(secrets.choice(_ALPHABET) for _ in range(length)))


def derived_password(root_key: bytes, owner: str, idempotency_key: str, length: int = _LENGTH) -> Secret:
    """Return the password that belongs to its owner, such as a service, and an idempotency key.

    A client that repeats its request gets the same password, though only its verifier is stored: who has the store
    but neither `root_key` nor the client's key cannot compute it.
    """
    digest = hmac.digest(root_key, f"{owner}\0{idempotency_key}".encode(), "sha512")
    number = int.from_bytes(digest)
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return Secret("".join(letters))


def scram_verifier(password: Secret, salt: bytes | None = None) -> Secret:
    """Return what PostgreSQL stores for a password: SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey."""
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password.reveal()).encode(), salt, _ITERATIONS)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return _verifier(salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def is_password_of(password: Secret, verifier: Secret) -> bool:
    """Tell whether a verifier that `scram_verifier` made belongs to a password; a foreign one counts as another's."""
    parts = verifier.reveal().replace(":", "$").split("$")
    if len(parts) != _VERIFIER_PARTS or parts[0] != "SCRAM-SHA-256":
        return False
    try:
        salt = base64.b64decode(parts[2], validate=True)
    except ValueError:
        return False
    return hmac.compare_digest(scram_verifier(password, salt).reveal().encode(), verifier.reveal().encode())


def unusable_verifier() -> Secret:
    """Return a verifier that no password belongs to."""
    return _verifier(secrets.token_bytes(16), secrets.token_bytes(32), secrets.token_bytes(32))


def _verifier(salt: bytes, stored_key: bytes, server_key: bytes) -> Secret:
    return Secret(f"SCRAM-SHA-256${_ITERATIONS}:{_base64(salt)}${_base64(stored_key)}:{_base64(server_key)}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
