"""Removes many rows in transactions of their own, so that no other writer waits for all of them."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from ramet.store.database import Store

_AT_ONCE = 500
_SECONDS = 5.0


def remove_in_batches(store: Store, *removals: Callable[[sa.Connection, int], int]) -> int:
    """Call each removal, which is given how many it may remove, while it removes as many; return how many were removed.

    It ends after some seconds, so that it delays no start and no stop: the next call goes on.
    """
    ends_at, count = time.monotonic() + _SECONDS, 0
    for remove in removals:
        removed = _AT_ONCE
        while removed == _AT_ONCE:
            with store.write(patient=True) as tx:
                removed = remove(tx, _AT_ONCE)
            count += removed
            if time.monotonic() >= ends_at:
                return count
    return count
