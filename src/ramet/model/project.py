"""Projects, and the API keys that open them."""

import hashlib
import hmac
import secrets
import string
from dataclasses import dataclass
from datetime import datetime

from ramet.model.passwords import Secret

_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Project:
    """A project holds services; its keys open it and nothing else."""

    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True)
class ApiKey:
    """A key as the store knows it: of the secret only a digest."""

    public_key: str
    project_id: str
    name: str
    secret_digest: str
    created_at: datetime
    revoked_at: datetime | None = None


def new_key_pair() -> tuple[str, Secret]:
    """Return a fresh public key and its secret."""
    public_key = "RK" + "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(18))
    return public_key, Secret("".join(secrets.choice(_ALPHABET) for _ in range(40)))


def digest_secret(secret: Secret) -> str:
    """Return the digest under which a key's secret is stored; the secret has 238 random bits, so no salt."""
    return hashlib.sha256(secret.reveal().encode()).hexdigest()


def matches(key: ApiKey, secret: Secret) -> bool:
    """Compare in constant time; a revoked key matches nothing."""
    return hmac.compare_digest(key.secret_digest, digest_secret(secret)) and key.revoked_at is None
