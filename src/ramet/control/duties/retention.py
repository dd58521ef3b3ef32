"""Removing what is older than it is kept: operations, idempotency keys, samples of metrics.

`now` is the trusted time (`ramet.control.duties.clock`): a clock that is wrong must not make everything look old.
"""

import logging
import random
from datetime import datetime, timedelta
from functools import partial

import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.store import history, idempotency, metrics
from ramet.store.batches import remove_in_batches

_log = logging.getLogger(__name__)


def remove_history(plane: Plane, now: datetime, kept: timedelta) -> None:
    """Remove the operations that ended longer ago than `kept`, and such idempotency keys."""
    count = remove_in_batches(plane.store, lambda tx, most: history.remove_operations(tx, now - kept, most))
    remove_in_batches(plane.store, lambda tx, most: idempotency.remove(tx, now - kept, most))
    if count:
        _log.info("%d old operations are removed", count)


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
