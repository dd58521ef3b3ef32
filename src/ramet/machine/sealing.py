"""Secrets as the store has them: encrypted with a key that derives from the root key (AES-256-GCM)."""

import base64
import binascii
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ramet.model.passwords import Secret

_NONCE_BYTES = 12


def seal(root_key: bytes, purpose: str, owner: str, secret: Secret) -> str:
    """Encrypt a secret of something; what is sealed for one owner or purpose cannot be used for another."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = _cipher(root_key, purpose).encrypt(nonce, secret.reveal().encode(), owner.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(root_key: bytes, purpose: str, owner: str, sealed: str) -> Secret:
    """Decrypt a secret. Raises ValueError when it was not sealed so."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        text = _cipher(root_key, purpose).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode())
    except (InvalidTag, binascii.Error) as error:
        raise ValueError(f"a secret of {owner} was not sealed with this root key") from error
    return Secret(text.decode())


def _cipher(root_key: bytes, purpose: str) -> AESGCM:
    return AESGCM(hmac.digest(root_key, purpose.encode(), "sha256"))
