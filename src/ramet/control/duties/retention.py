"""Removing what is older than it is kept: operations, idempotency keys, samples of metrics.

`now` is the trusted time (`ramet.control.duties.clock`): a clock that is wrong must not make everything look old.
"""

import logging
from datetime import datetime, timedelta

from ramet.control.plane import Plane
from ramet.store import history, idempotency, metrics

_AT_ONCE = 500
_log = logging.getLogger(__name__)


def remove_history(plane: Plane, now: datetime, kept: timedelta) -> None:
    """Remove some of the operations that ended longer ago than `kept`, and of the idempotency keys."""
    with plane.store.write() as tx:
        count = history.remove_operations(tx, now - kept, _AT_ONCE)
        idempotency.remove(tx, now - kept, _AT_ONCE)
    if count:
        _log.info("%d old operations are removed", count)


def remove_samples(plane: Plane, now: datetime) -> None:
    """Remove samples of metrics that are too old."""
    with plane.store.write(patient=True) as tx:
        metrics.remove_old(tx, now)
