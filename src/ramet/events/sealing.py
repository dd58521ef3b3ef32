"""Secrets of webhooks as the store has them: encrypted with a key that derives from the root key (AES-256-GCM)."""

import base64
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ramet.errors import Failed
from ramet.model.passwords import Secret

_NONCE_BYTES = 12


def seal(root_key: bytes, webhook_id: str, secret: Secret) -> str:
    """Encrypt a secret of a webhook; what is sealed for one cannot be used for another."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = _cipher(root_key).encrypt(nonce, secret.reveal().encode(), webhook_id.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(root_key: bytes, webhook_id: str, sealed: str) -> Secret:
    """Decrypt a secret of a webhook. Raises Failed when the store and the root key do not belong together."""
    raw = base64.b64decode(sealed)
    try:
        text = _cipher(root_key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], webhook_id.encode())
    except InvalidTag as error:
        raise Failed(
            "WEBHOOK_SECRET_UNREADABLE",
            f"The secret of webhook {webhook_id} was not sealed with this installation's root key",
            "Restore secrets/root.key from the backup of the store, or delete the webhook.",
        ) from error
    return Secret(text.decode())


def _cipher(root_key: bytes) -> AESGCM:
    return AESGCM(hmac.digest(root_key, b"webhook secrets", "sha256"))
