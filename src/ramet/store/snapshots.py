"""Rows of snapshots."""

from collections.abc import Collection
from dataclasses import asdict

import msgspec
import sqlalchemy as sa

from ramet.model.snapshot import Snapshot, SnapshotKind, in_wal_order
from ramet.store.rows import values_of
from ramet.store.services import holders
from ramet.store.tables import snapshot

_OF_SERVICE = snapshot.select().where(snapshot.c.service_id == sa.bindparam("same_id"))


def insert_snapshot(tx: sa.Connection, new: Snapshot) -> None:
    """Add a snapshot."""
    tx.execute(snapshot.insert(), asdict(new) | {"kind": new.kind.value})


def list_snapshots(tx: sa.Connection, service_id: str) -> list[Snapshot]:
    """Return the snapshots of a service in the order of the WAL, oldest first."""
    return in_wal_order(
        msgspec.convert(values_of(row), Snapshot) for row in tx.execute(_OF_SERVICE, {"same_id": service_id})
    )


def keep_snapshot(tx: sa.Connection, snapshot_id: str, name: str) -> None:
    """Let a snapshot stay until it is deleted by hand."""
    values = {"kind": SnapshotKind.MANUAL.value, "name": name}
    tx.execute(snapshot.update().where(snapshot.c.id == snapshot_id).values(values))


def delete_unheld(tx: sa.Connection, service_id: str, snapshot_ids: Collection[str], operation_id: str) -> None:
    """Delete snapshots of a service unless an operation other than `operation_id` holds it: that may be using them."""
    if all(holder == operation_id for holder in holders(tx, service_id)):
        own = (snapshot.c.service_id == service_id) & snapshot.c.id.in_(snapshot_ids)
        tx.execute(snapshot.delete().where(own))


def move_snapshots(tx: sa.Connection, from_id: str, to_id: str) -> None:
    """Make all snapshots of a service those of another one."""
    tx.execute(snapshot.update().where(snapshot.c.service_id == from_id).values(service_id=to_id))


def delete_snapshots_of(tx: sa.Connection, service_id: str) -> None:
    """Delete all snapshots of a service."""
    tx.execute(snapshot.delete().where(snapshot.c.service_id == service_id))
