"""Links that sign in once. This process keeps their digests in memory: a restart invalidates them."""

import secrets
import threading
import time
from collections.abc import Callable

from ramet.model.keys import ApiKey
from ramet.model.session import digest_token

LINK_SECONDS = 3600


class SignInLinks:
    """The links that are valid now. It may be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: dict[str, tuple[ApiKey, float]] = {}
        self._lock = threading.Lock()

    def make(self, key: ApiKey) -> str:
        """Return the token of a new link for the holder of a key."""
        token, now = secrets.token_urlsafe(24), self._clock()
        with self._lock:
            self._keys = {kept: (of, until) for kept, (of, until) in self._keys.items() if now < until}
            self._keys[digest_token(token)] = (key, now + LINK_SECONDS)
        return token

    def use(self, token: str) -> ApiKey | None:
        """Return the key that a link was made for, as it was then, and invalidate the link; None: used or expired."""
        with self._lock:
            key, until = self._keys.pop(digest_token(token), (None, 0.0))
        return key if self._clock() < until else None
