"""Rows of samples: kept as they are for two days, then one in ten minutes for a month."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from ramet.model.metrics import Sample
from ramet.store.tables import metric_sample, service

KEPT_WHOLE = timedelta(days=2)
KEPT_THINNED = timedelta(days=30)
_SLICE_MICROS = 600_000_000


def insert_samples(tx: sa.Connection, samples: dict[str, Sample]) -> None:
    """Add a sample for each service."""
    rows = [{"service_id": service_id, "at": s.at, "measured": dict(s.values)} for service_id, s in samples.items()]
    if rows:
        tx.execute(metric_sample.insert(), rows)


def list_samples(tx: sa.Connection, service_id: str, begin: datetime, end: datetime) -> list[Sample]:
    """Return the samples of a service from `begin` to before `end`, oldest first."""
    own = (metric_sample.c.service_id == service_id) & metric_sample.c.at.between(begin, end)
    rows = tx.execute(metric_sample.select().where(own, metric_sample.c.at < end).order_by(metric_sample.c.at))
    return [Sample(row.at, row.measured) for row in rows]


def last_samples(tx: sa.Connection, service_id: str, since: datetime, count: int) -> list[Sample]:
    """Return up to `count` of the newest samples of a service that are not older than `since`, oldest first."""
    own = (metric_sample.c.service_id == service_id) & (metric_sample.c.at >= since)
    rows = tx.execute(metric_sample.select().where(own).order_by(metric_sample.c.at.desc()).limit(count)).all()
    return [Sample(row.at, row.measured) for row in reversed(rows)]


def forget_old(tx: sa.Connection, now: datetime) -> None:
    """Remove the samples that are too old, all but one in ten minutes of the older ones, and those of gone services."""
    gone = sa.select(service.c.id).where(service.c.deleted_at.is_not(None) | service.c.failed_at.is_not(None))
    tx.execute(metric_sample.delete().where(metric_sample.c.service_id.in_(gone)))
    tx.execute(metric_sample.delete().where(metric_sample.c.at < now - KEPT_THINNED))
    other = metric_sample.alias()
    micros, other_micros = (sa.type_coerce(table.c.at, sa.BigInteger) for table in (metric_sample, other))
    earlier_in_slice = sa.exists().where(
        other.c.service_id == metric_sample.c.service_id,
        other_micros < micros,
        other_micros >= micros - micros % _SLICE_MICROS,
    )
    tx.execute(metric_sample.delete().where(metric_sample.c.at < now - KEPT_WHOLE, earlier_in_slice))
