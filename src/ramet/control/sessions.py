"""Signing in and out: sessions kept in the store, so that one that was ended opens nothing, wherever its token went."""

from dataclasses import dataclass
from datetime import datetime

from ramet.control.keys import present_key
from ramet.model.keys import ApiKey
from ramet.model.session import SESSION_LIFE, Session, digest_token, new_token
from ramet.store import sessions
from ramet.store.database import Store


@dataclass(frozen=True)
class Sessions:
    """The verbs over sessions."""

    store: Store

    def begin(self, key: ApiKey, now: datetime) -> str:
        """Open a session for who proved to have a key, and return its token, which is kept nowhere.

        It ends with the key, or with the secret that was used. Raises Unauthorized when that has ended just now.
        """
        token, ends_at = new_token(), now + SESSION_LIFE
        with self.store.write() as tx:
            key = present_key(tx, key, now, lock=True)  # a rotation ends the sessions that it finds
            sessions.delete_expired(tx, now)
            ends_at = ends_at if key.expires_at is None else min(ends_at, key.expires_at)
            sessions.insert_session(tx, digest_token(token), key.public_key, ends_at, key.secret_digest)
        return token

    def find(self, token: str, now: datetime) -> Session | None:
        """Return the session that a token opens; None when it is over, ended, or its key opens nothing any more."""
        with self.store.read() as tx:
            return sessions.get_session(tx, digest_token(token), now)

    def is_open(self, session: Session, now: datetime) -> bool:
        """Tell whether a session is not over yet."""
        with self.store.read() as tx:
            return sessions.get_session(tx, session.digest, now) is not None

    def end(self, session: Session) -> None:
        """End a session for good."""
        with self.store.write() as tx:
            sessions.delete_session(tx, session.digest)
