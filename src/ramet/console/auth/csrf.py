"""CSRF tokens: a form is accepted only with the token of the session that it was made for.

Litestar's CSRFMiddleware compares a form with its own cookie. All ports of a host share cookies, so another server
on it could set that cookie. The tokens here are bound to the session instead, and need no second cookie.
"""

import hashlib
import hmac
from collections.abc import Mapping

from ramet.errors import Forbidden
from ramet.model.session import Session

CSRF_FIELD = "_token"
FORM_EXPIRED = "FORM_EXPIRED"


class CsrfTokens:
    """Makes and checks the tokens of all sessions, with a key derived from `root_key`."""

    def __init__(self, root_key: bytes) -> None:
        self._key = hmac.digest(root_key, b"console forms", "sha256")

    def token_for(self, session: Session) -> str:
        """Return the token of a session's forms."""
        return hmac.new(self._key, session.digest.encode(), hashlib.sha256).hexdigest()

    def check(self, session: Session, fields: Mapping[str, str]) -> None:
        """Raise Forbidden unless the fields hold the session's token."""
        if not hmac.compare_digest(fields.get(CSRF_FIELD, "").encode(), self.token_for(session).encode()):
            raise Forbidden(FORM_EXPIRED, "This form belongs to another session", "Open the form and fill it in again.")
