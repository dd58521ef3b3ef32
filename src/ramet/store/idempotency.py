"""The request that was sent with an Idempotency-Key, and the service that it created."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.store.tables import idempotency


@dataclass(frozen=True)
class Remembered:
    """A request that was accepted under a key."""

    body_digest: str
    service_id: str


def take_turn(tx: sa.Connection, project_id: str, key_digest: str) -> None:
    """Let no other transaction that takes this turn accept a request with the same key before this one ends.

    It is the first lock of a transaction. On SQLite no other writer runs anyway.
    """
    if tx.dialect.name == "postgresql":
        lock = hashlib.sha256(f"{project_id} {key_digest}".encode()).digest()[:8]
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": int.from_bytes(lock, signed=True)})


def find(tx: sa.Connection, project_id: str, key_digest: str) -> Remembered | None:
    """Return the request that a key was used for, or None."""
    same = (idempotency.c.project_id == project_id) & (idempotency.c.key_digest == key_digest)
    row = tx.execute(idempotency.select().where(same)).one_or_none()
    return None if row is None else Remembered(row.body_digest, row.service_id)


def list_requests(tx: sa.Connection) -> list[sa.Row[Any]]:
    """Return the rows, in the order of the table's columns."""
    return list(tx.execute(idempotency.select().order_by(idempotency.c.project_id, idempotency.c.key_digest)))


def remove(tx: sa.Connection, before: datetime, limit: int) -> int:
    """Remove up to `limit` keys that were used before a time, the oldest first; return how many."""
    key = (idempotency.c.project_id, idempotency.c.key_digest)
    old = sa.select(*key).where(idempotency.c.created_at < before).order_by(idempotency.c.created_at).limit(limit)
    return int(tx.execute(idempotency.delete().where(sa.tuple_(*key).in_(old))).rowcount)


def insert(
    tx: sa.Connection, project_id: str, key_digest: str, body_digest: str, service_id: str, now: datetime
) -> None:
    """Record the request that a key was used for; it replaces an earlier one."""
    same = (idempotency.c.project_id == project_id) & (idempotency.c.key_digest == key_digest)
    tx.execute(idempotency.delete().where(same))
    tx.execute(
        idempotency.insert().values(
            project_id=project_id,
            key_digest=key_digest,
            body_digest=body_digest,
            service_id=service_id,
            created_at=now,
        )
    )
