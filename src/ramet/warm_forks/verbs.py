"""The verbs over the pool of warm forks that a service keeps."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.lookup import changeable_service, find_project, find_service
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.service import Service, is_being_deleted, status_of
from ramet.model.status import Status
from ramet.model.warm_forks import AUTOMATIC, Pool, check_pool, pool_of, warmth_of, with_pool
from ramet.store import services
from ramet.store.warm_forks import unclaimed_forks


@dataclass(frozen=True)
class WarmForks:
    """The pool of a service: how many forks are ready and are being made, and the oldest state.

    An automatic pool has the size of what there is of it: its forks are made for the demand of each time.
    """

    pool: Pool
    ready: int
    being_made: int
    oldest_as_of: datetime | None


def keep_warm_forks(plane: Plane, project_id: str, service_id: str, size: int, max_age_seconds: int) -> WarmForks:
    """Let a service keep so many forks of its newest state ready, none of an older state than that.

    With a size of 0 it keeps none, however often it is forked. Raises WrongState where forks of the project fall
    asleep: a warm fork cannot be given to a request for one that does.
    """
    pool = check_pool(size, max_age_seconds)
    with plane.store.write() as tx:
        service = changeable_service(plane, tx, project_id, service_id, "setWarmForks")
        sleep_after = find_project(tx, project_id).limits.fork_sleep_after_seconds
        if pool.size and sleep_after is not None:
            raise WrongState(
                "FORKS_FALL_ASLEEP",
                f"Forks in this project fall asleep after {sleep_after} s, and no warm fork does",
                "Remove fork_sleep_after_seconds from the limits of the project, or send size 0.",
            )
        _set(tx, service, pool)
        return _shown(tx, service, pool)


def drop_warm_forks(plane: Plane, project_id: str, service_id: str) -> None:
    """Let a service keep forks only while it is forked often; others that nobody has claimed are deleted."""
    with plane.store.write() as tx:
        _set(tx, changeable_service(plane, tx, project_id, service_id, "deleteWarmForks"), None)


def get_warm_forks(plane: Plane, project_id: str, service_id: str) -> WarmForks:
    """Return the pool of a service."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        return _shown(tx, service, pool_of(service))


def _set(tx: sa.Connection, service: Service, pool: Pool | None) -> None:
    services.update_service(tx, service.id, settings=with_pool(service.settings, pool))


def _shown(tx: sa.Connection, service: Service, pool: Pool | None) -> WarmForks:
    found = [one for one in unclaimed_forks(tx, service.id) if not is_being_deleted(one)]
    pool = pool or replace(AUTOMATIC, size=len(found))
    ready = [warmth_of(one) for one in found if one.ready_at is not None and status_of(one) is Status.READY]
    oldest = min((one.as_of for one in ready if one is not None), default=None)
    return WarmForks(pool, len(ready), sum(one.ready_at is None for one in found), oldest)
