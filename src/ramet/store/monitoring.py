"""Rows that a scrape reads, in a few queries for all services: the queue, samples, ages of snapshots, restarts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.model.metrics import Sample
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import SnapshotKind
from ramet.model.status import OperationStatus
from ramet.store.database import epoch_seconds
from ramet.store.due import DUE_SINCE, UNDER_WAY
from ramet.store.tables import metric_sample, operation, snapshot


@dataclass(frozen=True)
class Queued:
    """The operations under way of a procedure with a status; `late_seconds` is for how long the oldest one is due.

    A lease is expired when its worker did not renew it: another worker takes over then.
    """

    procedure: str
    status: str
    waiting: int
    leased: int
    expired: int
    late_seconds: float


def queue(tx: sa.Connection) -> list[Queued]:
    """Return the operations under way, by procedure and status."""
    now = epoch_seconds(tx)
    is_leased = operation.c.worker.is_not(None)
    is_due = sa.bindparam("now", type_=sa.Float) >= DUE_SINCE
    query = (
        sa.select(
            operation.c.procedure,
            operation.c.status,
            sa.func.count().filter(~is_leased),
            sa.func.count().filter(is_leased),
            sa.func.count().filter(is_leased & is_due),
            sa.func.min(DUE_SINCE).filter(is_due & ~is_leased),
        )
        .where(UNDER_WAY)
        .group_by(operation.c.procedure, operation.c.status)
    )
    rows = tx.execute(query, {"now": now})
    return [
        Queued(procedure, status, waiting, leased, expired, 0.0 if since is None else max(0.0, now - since))
        for procedure, status, waiting, leased, expired, since in rows
    ]


def newest_samples(tx: sa.Connection, since: datetime, subjects: Sequence[str] | None = None) -> Mapping[str, Sample]:
    """Return the newest sample of each service and read replica set that is as new as `since`; of `subjects` or all."""
    newest = (
        sa.select(metric_sample.c.subject, sa.func.max(metric_sample.c.at).label("at"))
        .where(metric_sample.c.at >= since, *_among(metric_sample.c.subject, subjects))
        .group_by(metric_sample.c.subject)
        .subquery()
    )
    same = (newest.c.subject == metric_sample.c.subject) & (newest.c.at == metric_sample.c.at)
    rows = tx.execute(sa.select(metric_sample).join(newest, same))
    return {row.subject: Sample(row.at, row.measured) for row in rows}


def snapshot_times(
    tx: sa.Connection, subjects: Sequence[str] | None = None
) -> Mapping[str, tuple[datetime | None, datetime]]:
    """Return for each service when its oldest snapshot with WAL was taken, None without one, and when its newest."""
    automatic = snapshot.c.kind != SnapshotKind.MANUAL.value
    times: sa.Select[Any] = sa.select(
        snapshot.c.service_id,
        sa.func.min(snapshot.c.taken_at).filter(automatic).label("oldest"),
        sa.func.max(snapshot.c.taken_at).label("newest"),
    )
    query = times.where(*_among(snapshot.c.service_id, subjects)).group_by(snapshot.c.service_id)
    return {row.service_id: (row.oldest, row.newest) for row in tx.execute(query)}


def restarts(tx: sa.Connection, since: datetime, subjects: Sequence[str] | None = None) -> Mapping[str, int]:
    """Return how often each service was started again since a time because it was down; most are missing."""
    succeeded = operation.c.status == OperationStatus.SUCCEEDED.value
    ended = succeeded & (operation.c.procedure == ProcedureName.RESTART.value) & (operation.c.finished_at >= since)
    query = sa.select(operation.c.subject).where(ended, *_among(operation.c.subject, subjects))
    return Counter(tx.scalars(query))  # grouped by the database, SQLite would read all operations


def _among(column: sa.ColumnElement[str], ids: Sequence[str] | None) -> Sequence[sa.ColumnElement[bool]]:
    return () if ids is None else [column.in_(ids)]
