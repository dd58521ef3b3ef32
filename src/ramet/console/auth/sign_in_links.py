"""SignInLinks that sign in once. This process keeps their digests in memory: a restart invalidates them."""

import secrets
import threading
import time
from collections.abc import Callable

from ramet.model.session import digest_token

LINK_SECONDS = 3600


class SignInLinks:
    """The links that are valid now. It may be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def make(self, public_key: str) -> str:
        """Return the token of a new link for the holder of a key."""
        token, now = secrets.token_urlsafe(24), self._clock()
        with self._lock:
            self._keys = {kept: (key, until) for kept, (key, until) in self._keys.items() if now < until}
            self._keys[digest_token(token)] = (public_key, now + LINK_SECONDS)
        return token

    def use(self, token: str) -> str | None:
        """Return the public key that a link was made for and invalidate the link; None when it is used or expired."""
        with self._lock:
            public_key, until = self._keys.pop(digest_token(token), ("", 0.0))
        return public_key if self._clock() < until else None
