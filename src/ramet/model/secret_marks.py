"""Marks of secrets: by one a form says which secret it replaces, so that it replaces none but that."""

import hashlib
import hmac

from ramet.errors import WrongState


def mark_of(secret: str) -> str:
    """Return the mark of a secret, or of its digest. It tells nothing of them: they have more than 200 random bits."""
    return hashlib.sha256(f"mark of {secret}".encode()).hexdigest()[:32]


def check_mark(mark: str | None, secret: str, whose: str) -> None:
    """Raise WrongState unless a mark is that of the present secret; None: replace whichever it is."""
    if mark is not None and not hmac.compare_digest(mark.encode(), mark_of(secret).encode()):
        raise WrongState(
            "SECRET_CHANGED",
            f"{whose} got another secret after this form was opened",
            "If nobody has that one, open the form again to replace it, too. The one before it is void then.",
        )
