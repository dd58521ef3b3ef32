"""Sessions of people in a browser: what one is, and the token that opens it."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from ramet.model.keys import ApiKey
from ramet.model.rights import allows

SESSION_LIFE = timedelta(hours=12)


@dataclass(frozen=True)
class Session:
    """Somebody who signed in with a key. It ends by itself, with its key, or by signing out."""

    digest: str
    key: ApiKey
    project_name: str

    @property
    def public_key(self) -> str:
        """The key that it was begun with."""
        return self.key.public_key

    @property
    def key_name(self) -> str:
        """The name of that key."""
        return self.key.name

    @property
    def project_id(self) -> str:
        """The project of that key."""
        return self.key.project_id

    def may(self, operation: str) -> bool:
        """Tell whether its key has the right that an operation needs."""
        return allows(self.key.role, operation)


def new_token() -> str:
    """Return a token that opens a session; it has 256 random bits."""
    return secrets.token_urlsafe(32)


def digest_token(token: str) -> str:
    """Return what the store knows of a token: it cannot be turned back, so a copy of the store opens nothing."""
    return hashlib.sha256(token.encode()).hexdigest()
