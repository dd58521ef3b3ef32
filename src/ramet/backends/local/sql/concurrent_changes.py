"""Changes of a row that another session alters: PostgreSQL waits for that session, then refuses the later change."""

from collections.abc import Callable

import psycopg

from ramet.errors import Unavailable

_ATTEMPTS = 5
# How a statement ends that waits for locks of another session for too long.
LOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
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


def change_role(service_id: str, role: str, change: Callable[[], object]) -> None:
    """Make a change of a role, as `retry_if_altered` does. Raises Unavailable while a transaction locks the role."""
    try:
        retry_if_altered(change)
    except (*LOCKED, psycopg.errors.InternalError_) as error:
        if not isinstance(error, LOCKED) and not was_altered(error):
            raise
        raise Unavailable(
            "ROLE_LOCKED",
            f"A transaction in service {service_id} keeps the role {role} locked",
            "End that transaction, then try again.",
        ) from error


def was_altered(error: Exception) -> bool:
    """Tell whether a change was refused because another session had altered the same row; psql's words say it, too."""
    return _REFUSAL in str(error)
