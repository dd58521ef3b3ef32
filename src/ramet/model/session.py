"""Sessions of people in a browser: what one is, and the token that opens it."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

SESSION_LIFE = timedelta(hours=12)


@dataclass(frozen=True)
class Session:
    """Somebody who signed in with a key. It ends by itself, with its key, or by signing out."""

    digest: str
    public_key: str
    key_name: str
    project_id: str
    project_name: str


def new_token() -> str:
    """Return a token that opens a session; it has 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_token(token: str) -> str:
    """Return what the store knows of a token: it cannot be turned back, so a copy of the store opens nothing."""
    return hashlib.sha256(token.encode()).hexdigest()
