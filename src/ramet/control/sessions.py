"""Signing in and out: sessions kept in the store, so that one that was ended opens nothing, wherever its token went."""

from dataclasses import dataclass
from datetime import datetime

from ramet.model.session import SESSION_LIFE, Session, digest_token, new_token
from ramet.store import sessions
from ramet.store.database import Store


@dataclass(frozen=True)
class Sessions:
    """The verbs over sessions."""

    store: Store

    def begin(self, public_key: str, now: datetime) -> str:
        """Open a session for who proved to have a key, and return its token, which is kept nowhere."""
        token = new_token()
        with self.store.write() as tx:
            sessions.delete_expired(tx, now)
            sessions.insert_session(tx, digest_token(token), public_key, now + SESSION_LIFE)
        return token

    def find(self, token: str, now: datetime) -> Session | None:
        """Return the session that a token opens; None when it is over, ended, or its key was revoked."""
        with self.store.read() as tx:
            return sessions.get_session(tx, digest_token(token), now)

    def end(self, session: Session) -> None:
        """End a session for good."""
        with self.store.write() as tx:
            sessions.delete_session(tx, session.digest)
