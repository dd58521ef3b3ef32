"""Whether a storage has room for what is about to be made."""

import math

from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Exhausted

_RESERVE_BYTES = 128 * 1024**2
_WAL_BYTES = 64 * 1024**2
_MIB = 1024**2


def check_room(pool: Pool, copied_bytes: int = 0) -> None:
    """Raise Exhausted when there is no room for a new service with so many bytes of copied data."""
    _check_free(pool, _RESERVE_BYTES + copied_bytes)


def check_wal_room(pool: Pool) -> None:
    """Raise Exhausted where a server that is made to begin a WAL segment could fail: it would go down."""
    _check_free(pool, _WAL_BYTES)


def _check_free(pool: Pool, needed_bytes: int) -> None:
    free = pool.free_bytes()
    if free < needed_bytes:
        raise Exhausted(
            "NOT_ENOUGH_DISK",
            f"The storage has {free // _MIB} MiB left, and this needs {math.ceil(needed_bytes / _MIB)} MiB",
            f"Delete services that are not needed, or enlarge the storage at {pool.path}.",
        )
