"""Links that sign in once. They are kept in the store: another process may serve who opens one."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from ramet.model.keys import ApiKey
from ramet.model.session import digest_token, new_token
from ramet.store import keys, once
from ramet.store.database import Store

LINK_LIFE = timedelta(hours=1)


@dataclass(frozen=True)
class SignInLinks:
    """The verbs over links."""

    store: Store
    clock: Callable[[], datetime]

    def make(self, key: ApiKey) -> str:
        """Return the token of a new link for the holder of a key. It is kept nowhere."""
        token, now = new_token(), self.clock()
        with self.store.write() as tx:
            once.delete_expired_links(tx, now)
            once.insert_link(tx, digest_token(token), key.public_key, key.secret_digest, now + LINK_LIFE)
        return token

    def use(self, token: str) -> ApiKey | None:
        """Return the key that a link was made for, and invalidate the link; None: used or expired.

        The key has the digest of the secret that the link was made with, as for `present_key`.
        """
        digest, now = digest_token(token), self.clock()
        with self.store.read() as tx:  # guessing does not make other writers wait
            if not once.has_link(tx, digest):
                return None
        with self.store.write() as tx:
            taken = once.take_link(tx, digest)
            key = None if taken is None else keys.find_key(tx, taken[0])
        # One that would last twice as long as any was made by a wrong clock.
        if taken is None or key is None or not now < taken[2] <= now + 2 * LINK_LIFE:
            return None
        return replace(key, secret_digest=taken[1])
