"""A login: a role in the database of a service that belongs to a key, and ends by itself."""

from datetime import datetime

from msgspec import Struct

from ramet.errors import Invalid

LEAST_SECONDS = 60
MOST_SECONDS = 12 * 3600
USUAL_SECONDS = 3600
MOST_OF_KEY = 20  # in one service


class Login(Struct, frozen=True):
    """The login of a key in a service. It can be used until `expires_at`, and is dropped with the key."""

    role: str
    service_id: str
    public_key: str
    read_only: bool
    created_at: datetime
    expires_at: datetime


def check_seconds(seconds: int) -> int:
    """Return how long a login lasts. Raises Invalid."""
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        wrong = f"ttl_seconds of a login must be between {LEAST_SECONDS} and {MOST_SECONDS} (got {seconds})"
        raise Invalid("INVALID_TTL_SECONDS", wrong, "Make another one when it has ended.")
    return seconds
