"""Changes of a row that another session alters: PostgreSQL waits for that session, then refuses the later change."""

from collections.abc import Callable

import psycopg

from ramet.errors import Unavailable

_ATTEMPTS = 5
_REFUSAL = "tuple concurrently updated"  # its class, XX000, is that of all internal errors


def retry_if_altered(change: Callable[[], object]) -> None:
    """Make a change, again where another session has altered the same row at that time; it must be able to run twice.

    Raises what `change` raises, and the refusal when that repeats.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            change()
            return
        except (psycopg.errors.InternalError_, Unavailable) as error:
            if not was_altered(error):
                raise
    change()


def was_altered(error: Exception) -> bool:
    """Tell whether a change was refused because another session had altered the same row; psql's words say it, too."""
    return _REFUSAL in str(error)
