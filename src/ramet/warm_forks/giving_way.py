"""Unclaimed forks give way to what clients ask for where the host has no room for both."""

import sqlalchemy as sa

from ramet.control.plane import Plane, Yielded
from ramet.model.capacity import memory_needed_mbs
from ramet.store.warm_forks import unclaimed_forks
from ramet.warm_forks.keeping import as_keeper, delete_unclaimed

_REASON = "It has given way to another server: the host was full."


def give_way(plane: Plane, tx: sa.Connection, servers: int, memory_mbs: int) -> Yielded:
    """Submit the deletion of as many unclaimed forks as make up for so many servers and so much memory."""
    keeper, given_servers, given_mbs = as_keeper(plane), 0, 0
    for fork in unclaimed_forks(tx):
        if given_servers >= servers and given_mbs >= memory_mbs:
            break
        if fork.ready_at is not None and delete_unclaimed(keeper, tx, fork.id, _REASON):
            given_servers += 1
            given_mbs += memory_needed_mbs(fork.size, fork.environment)
    return Yielded(given_servers, given_mbs)
