"""Who is signed in: sessions sealed into a cookie, links that open one once, and a brake on guessing keys."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ramet.model.project import ApiKey, Project

COOKIE = "ramet_session"
SESSION_SECONDS = 12 * 3600
LINK_SECONDS = 3600
_ATTEMPTS = 10
_ATTEMPT_SECONDS = 300.0
_ADDRESSES = 10_000


@dataclass(frozen=True)
class Session:
    """A signed-in browser. The key opens the session anew at each request, so revoking it ends the session."""

    public_key: str
    key_name: str
    project_id: str
    project_name: str
    nonce: str
    expires_at: float


def new_session(key: ApiKey, project: Project, now: float) -> Session:
    """Return a session for the holder of a key."""
    return Session(key.public_key, key.name, project.id, project.name, secrets.token_hex(16), now + SESSION_SECONDS)


class Sealer:
    """Seals sessions, so that a browser can keep but not change them."""

    def __init__(self, root_key: bytes) -> None:
        self._key = hmac.digest(root_key, b"console sessions", "sha256")

    def seal(self, session: Session) -> str:
        """Return the text for the cookie."""
        body = base64.urlsafe_b64encode(json.dumps(asdict(session)).encode()).decode()
        return f"{body}.{self._mark(body)}"

    def unseal(self, text: str, now: float) -> Session | None:
        """Return the session that a cookie holds; None when it is not ours, or over."""
        body, _, mark = text.partition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(body).encode()):
            return None
        session = Session(**json.loads(base64.urlsafe_b64decode(body)))
        return session if now < session.expires_at else None

    def form_token(self, session: Session) -> str:
        """Return what every form of the session carries: another site cannot know it."""
        return self._mark(f"form {session.nonce}")

    def _mark(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


class Links:
    """Links that sign in once, kept as digests in this process only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keys: dict[bytes, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def make(self, public_key: str) -> str:
        """Return the token of a new link for the holder of a key."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._keys[_digest(token)] = (public_key, self._clock() + LINK_SECONDS)
        return token

    def use(self, token: str) -> str | None:
        """Return the public key that a link was made for, and forget the link; None when it is used, or too old."""
        with self._lock:
            public_key, until = self._keys.pop(_digest(token), ("", 0.0))
        return public_key if self._clock() < until else None


class Attempts:
    """Counts failed sign-ins of an address, and says how long it has to wait when there were too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def wait_seconds(self, address: str) -> int:
        """Return the seconds until the address may try again; 0: now."""
        with self._lock:
            recent = self._recent(address)
            if len(recent) < _ATTEMPTS:
                return 0
            return max(1, int(recent[0] + _ATTEMPT_SECONDS - self._clock()) + 1)

    def fail(self, address: str) -> None:
        """Note a failed sign-in."""
        with self._lock:
            if len(self._failed) >= _ADDRESSES:
                self._failed = {known: times for known in list(self._failed) if (times := self._recent(known))}
            self._failed[address] = [*self._recent(address), self._clock()]

    def _recent(self, address: str) -> list[float]:
        since = self._clock() - _ATTEMPT_SECONDS
        return [at for at in self._failed.get(address, []) if at > since]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
