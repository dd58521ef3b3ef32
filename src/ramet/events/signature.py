"""Signatures of deliveries, as the Standard Webhooks specification says (version 1, symmetric)."""

import base64
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

from ramet.model.passwords import Secret

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> Secret:
    """Return a new secret: whsec_ and the base64 of 32 random bytes."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode())


def derived_secret(root_key: bytes, webhook_id: str, idempotency_key: str, replaced: Secret) -> Secret:
    """Return the secret that replaces another one: the same again for whoever repeats a rotation with the same key."""
    content = f"{webhook_id} {replaced.reveal()}\0{idempotency_key}"
    return Secret(PREFIX + base64.b64encode(hmac.digest(root_key, content.encode(), "sha256")).decode())


def signed_headers(message_id: str, at: datetime, body: bytes, keys: Sequence[Secret]) -> dict[str, str]:
    """Return the headers of a delivery: its id, the time of this attempt, and a signature with each of the keys."""
    timestamp = str(int(at.timestamp()))
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(key, content) for key in keys),
    }


def _signature(key: Secret, content: bytes) -> str:
    raw = base64.b64decode(key.reveal().removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(raw, content, "sha256")).decode()
