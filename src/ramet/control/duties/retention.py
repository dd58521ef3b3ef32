"""Removing what is older than it is kept: operations, idempotency keys, services that ended, samples of metrics.

`now` is the trusted time (`ramet.control.duties.clock`): a clock that is wrong must not make everything look old.
"""

import logging
import random
from datetime import datetime, timedelta
from functools import partial

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.procedures.servers import FORKED_WITHIN
from ramet.store import ended, history, idempotency, metrics
from ramet.store.batches import remove_in_batches

_MOST_SERVICES, _AT_ONCE = 5000, 50
_FREQUENT_KEPT = timedelta(days=1)
_log = logging.getLogger(__name__)


def remove_history(plane: Plane, now: datetime, kept: timedelta) -> None:
    """Remove the operations that ended longer ago than `kept`, such idempotency keys, and such services.

    Snapshots on schedule that succeeded are kept for a day: with those of each minute the others are found slowly.
    Services stay long enough to be counted as forks of their parents.
    """
    count = remove_in_batches(
        plane.store,
        lambda tx, most: history.remove_operations(tx, now - kept, most),
        lambda tx, most: history.remove_frequent_operations(tx, now - _FREQUENT_KEPT, most),
    )
    remove_in_batches(plane.store, lambda tx, most: idempotency.remove(tx, now - kept, most))
    if count:
        _log.info("%d old operations are removed", count)
    _remove_ended(plane, now - max(kept, FORKED_WITHIN))


def _remove_ended(plane: Plane, before: datetime) -> None:
    """Remove the read replica sets and services that ended before a time, and that nothing needs.

    Services are found without keeping others from writing, and removed a few at a time.
    """
    remove_in_batches(plane.store, lambda tx, most: ended.remove_sets(tx, before, most))
    with plane.store.read() as tx:
        ids = ended.unneeded_services(tx, before, _MOST_SERVICES)
    parts = [ids[first : first + _AT_ONCE] for first in range(0, len(ids), _AT_ONCE)]
    count = remove_in_batches(plane.store, *(partial(_remove_services, before, part) for part in parts))
    if count:
        _log.info("%d services that ended long ago are removed from the store", count)


def _remove_services(before: datetime, ids: list[str], tx: sa.Connection, _most: int) -> int:
    return ended.remove_services(tx, before, ids)


def remove_samples(plane: Plane, now: datetime) -> None:
    """Remove samples of metrics that are too old, or of what is gone, for some seconds: the next call goes on."""
    remove_in_batches(plane.store, metrics.remove_usage_of_gone)
    with plane.store.read() as tx:
        subjects = metrics.subjects(tx)
    random.shuffle(subjects)  # so that calls which do not get to the end do not leave out the same ones
    of_each = [partial(_remove_samples, subject, now) for subject in subjects]
    remove_in_batches(plane.store, *of_each)


def _remove_samples(subject: str, now: datetime, tx: sa.Connection, most: int) -> int:
    return metrics.remove_old(tx, subject, now, most)
