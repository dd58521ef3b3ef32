"""What LAST_SNAPSHOT holds: at least what every fork of now of the same parent that is READY holds (clients' rule 27).

The published interface says that NOW creates a snapshot. Taking one with each fork would double its cost, so it is
taken when somebody asks for the last one, and only if a fork of now holds more than the newest that is there.
"""

import sqlalchemy as sa

from ramet.model.service import Service, status_of
from ramet.model.snapshot import Snapshot, SnapshotKind, lsn_number
from ramet.model.status import Status
from ramet.procedures.servers import submit_snapshot
from ramet.store import services


def is_behind(tx: sa.Connection, parent: Service, newest: Snapshot | None) -> bool:
    """Tell whether a fork of now holds more than the newest snapshot, and a newer one can be taken."""
    if status_of(parent) not in (Status.READY, Status.PAUSED):
        return False
    held = (-1, -1) if newest is None else (newest.timeline, lsn_number(newest.end_lsn))
    return any((timeline, lsn_number(lsn)) > held for timeline, lsn in services.ends_of_forks_of_now(tx, parent.id))


def take_another(tx: sa.Connection, parent: Service) -> str:
    """Submit a snapshot, and return its id: a fork of it waits until it is there."""
    return submit_snapshot(tx, parent.id, SnapshotKind.SCHEDULED)
