"""What browsers prove themselves by: marks on forms, links that open a session once, and a brake on guessing keys."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from ramet.model.session import Session, digest_token

COOKIE = "ramet_session"
LINK_SECONDS = 3600
_FREE_FAILURES = 10
_REMEMBERED_SECONDS = 300.0
_REMEMBERED = 10_000
_LANES = 4


class FormMarks:
    """What every form of a session carries: another site cannot know it."""

    def __init__(self, root_key: bytes) -> None:
        self._key = hmac.digest(root_key, b"console forms", "sha256")

    def of(self, session: Session) -> str:
        """Return the mark of a session's forms."""
        return hmac.new(self._key, session.digest.encode(), hashlib.sha256).hexdigest()


class Links:
    """Links that sign in once, kept as digests in this process only."""

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
        """Return the public key that a link was made for, and forget the link; None when it is used, or too old."""
        with self._lock:
            public_key, until = self._keys.pop(digest_token(token), ("", 0.0))
        return public_key if self._clock() < until else None


Guess = tuple[str, str]
"""Who signs in: the address that asks, and the public key that it gives."""


class Brake:
    """Slows down who guesses the secret of a key; the right one gets through all the same.

    After some failures of an address with a key, each further attempt waits its turn in one of a few lanes; more than
    fit into them are not looked at. Other keys are not slowed down: many people may share the address of a proxy.
    """

    def __init__(self, delay_seconds: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.delay_seconds = delay_seconds
        self._clock = clock
        self._failed: OrderedDict[Guess, list[float]] = OrderedDict()
        self._waiting: dict[Guess, int] = {}
        self._lock = threading.Lock()

    def is_on(self, guess: Guess) -> bool:
        """Tell whether this has failed too often lately."""
        with self._lock:
            return len(self._recent(guess)) >= _FREE_FAILURES

    def fail(self, guess: Guess) -> None:
        """Note a failed sign-in. The oldest of very many are forgotten."""
        with self._lock:
            self._failed[guess] = [*self._recent(guess)[-_FREE_FAILURES:], self._clock()]
            self._failed.move_to_end(guess)
            if len(self._failed) > _REMEMBERED:
                self._failed.popitem(last=False)

    def enter(self, guess: Guess) -> bool:
        """Take a lane for the time of the delay; False when all are taken."""
        with self._lock:
            taken = self._waiting.get(guess, 0)
            if taken < _LANES:
                self._waiting[guess] = taken + 1
            return taken < _LANES

    def leave(self, guess: Guess) -> None:
        """Give the lane back."""
        with self._lock:
            self._waiting[guess] -= 1
            if not self._waiting[guess]:
                del self._waiting[guess]

    def _recent(self, guess: Guess) -> list[float]:
        since = self._clock() - _REMEMBERED_SECONDS
        return [at for at in self._failed.get(guess, []) if at > since]
