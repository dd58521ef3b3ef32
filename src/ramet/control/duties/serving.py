"""The services whose servers should be serving now."""

import sqlalchemy as sa

from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.store import replicas, services
from ramet.store.database import Store


def serving_services(store: Store) -> list[Service]:
    """Return the services that should be serving: created, not paused, and without an operation under way."""
    with store.read() as tx:
        known = services.all_live_services(tx)
    return [s for s in known if s.ready_at is not None and s.activity is None and not s.paused]


def serving_sets(tx: sa.Connection, service_id: str | None = None) -> list[ReplicaSet]:
    """Return the read replica sets, all or those of a service, that were created and have no operation under way."""
    return [each for each in replicas.live_sets(tx, service_id) if each.ready_at and not each.activity]
