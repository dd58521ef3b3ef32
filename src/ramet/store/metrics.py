"""Rows of samples, of services and of read replica sets, and of what each of them uses now.

Samples are kept as they are for two days, then one in ten minutes for a month.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from ramet.model.metrics import Sample, Usage
from ramet.store.tables import is_live, last_usage, metric_sample, replica_set, service

KEPT_WHOLE = timedelta(days=2)
KEPT_THINNED = timedelta(days=30)
_SLICE_MICROS = 600_000_000


def usage_columns(since: sa.BindParameter[datetime]) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns of what a subject uses now, and before them whether that is as new as `since`."""
    used = (last_usage.c.cpu_millis, last_usage.c.memory_mb, last_usage.c.storage_mb, last_usage.c.own_bytes)
    return last_usage.c.at >= since, *used


_SINCE: sa.BindParameter[datetime] = sa.bindparam("since")
_USAGES = sa.select(last_usage.c.subject, *usage_columns(_SINCE)).where(
    (last_usage.c.at >= _SINCE) | last_usage.c.own_bytes.is_not(None)
)
_USAGE = _USAGES.where(last_usage.c.subject == sa.bindparam("same_subject"))
_REMOVE_LATER = metric_sample.delete().where(
    metric_sample.c.subject == sa.bindparam("same_subject"), metric_sample.c.at >= _SINCE
)
_SUBJECTS = (service, replica_set)
_LIVING = [sa.select(each.c.id).where(each.c.id == sa.bindparam("subject"), is_live(each)) for each in _SUBJECTS]
_FOLLOWING = sa.select(sa.func.min(metric_sample.c.subject)).where(metric_sample.c.subject > sa.bindparam("subject"))
_USAGES_IN_PROJECT = _USAGES.join(service, service.c.id == last_usage.c.subject).where(
    service.c.project_id == sa.bindparam("same_project"), service.c.deleted_at.is_(None)
)


def due_subjects(tx: sa.Connection, now: datetime, pause: timedelta) -> list[str]:
    """Return the services and sets that should be serving and were not measured for a while, longest ago first.

    What was measured later than now was measured before the clock stepped back: it is due.
    """
    own_set = sa.select(replica_set.c.id).join(service, service.c.id == replica_set.c.service_id)
    serving = sa.union_all(
        sa.select(service.c.id.label("subject")).where(_lives(service), ~service.c.paused),
        own_set.where(_lives(replica_set), ~service.c.paused),
    ).subquery()
    last = last_usage.c.at
    query = sa.select(serving.c.subject).outerjoin(last_usage, last_usage.c.subject == serving.c.subject)
    is_due = last.is_(None) | (last <= now - pause) | (last > now)
    return list(tx.scalars(query.where(is_due).order_by(last.nulls_first())))


def insert_samples(tx: sa.Connection, samples: Mapping[str, Sample]) -> None:
    """Add a sample for each subject, in the place of later ones: these are from before the clock was set back."""
    rows = [{"subject": subject, "at": s.at, "measured": dict(s.values)} for subject, s in samples.items()]
    if rows:
        tx.execute(_REMOVE_LATER, [{"same_subject": row["subject"], "since": row["at"]} for row in rows])
        tx.execute(metric_sample.insert(), rows)


def put_usage(tx: sa.Connection, usages: Mapping[str, Usage], at: datetime) -> None:
    """Record what subjects use now, in the place of what was known before; what they occupy of their own stays.

    Rows are locked in the order of subjects, as by `put_own_space`, which another duty may call at the same time.
    """
    rows = [
        {"subject": one, "at": at, "cpu_millis": u.cpu_millis, "memory_mb": u.memory_mb, "storage_mb": u.storage_mb}
        for one, u in sorted(usages.items(), key=itemgetter(0))
    ]
    known = set(tx.scalars(sa.select(last_usage.c.subject).where(last_usage.c.subject.in_(list(usages)))))
    if old := [{"same_subject": row["subject"], **row} for row in rows if row["subject"] in known]:
        tx.execute(last_usage.update().where(last_usage.c.subject == sa.bindparam("same_subject")), old)
    if new := [row for row in rows if row["subject"] not in known]:
        tx.execute(last_usage.insert(), new)


def due_for_own_space(tx: sa.Connection, now: datetime, pause: timedelta) -> list[str]:
    """Return the services whose own space was not measured for a while, longest ago first; paused ones, too."""
    last = last_usage.c.own_at
    measured = last_usage.join(service, service.c.id == last_usage.c.subject)
    is_due = last.is_(None) | (last <= now - pause) | (last > now)
    query = sa.select(last_usage.c.subject).select_from(measured).where(_lives(service), is_due)
    return list(tx.scalars(query.order_by(last.nulls_first())))


def put_own_space(tx: sa.Connection, own_bytes: Mapping[str, int | None], at: datetime) -> None:
    """Record what services, at least one, occupy of their own; None where the host cannot tell."""
    rows = [{"same_subject": one, "own_bytes": own_bytes[one], "own_at": at} for one in sorted(own_bytes)]
    tx.execute(last_usage.update().where(last_usage.c.subject == sa.bindparam("same_subject")), rows)


def own_space_in_project(tx: sa.Connection, project_id: str) -> dict[str, int | None]:
    """Return what the services of a project occupy of their own; those that were not measured yet are missing."""
    measured = last_usage.join(service, service.c.id == last_usage.c.subject)
    query = sa.select(last_usage.c.subject, last_usage.c.own_bytes).select_from(measured)
    own = (service.c.project_id == project_id) & service.c.deleted_at.is_(None)
    rows = tx.execute(query.where(own, last_usage.c.own_at.is_not(None)))
    return {row.subject: row.own_bytes for row in rows}


def usage_of(tx: sa.Connection, subject: str, since: datetime) -> Usage | None:
    """Return what a subject uses now, as far as that is as new as `since`; what it occupies of its own may be older."""
    row = tx.execute(_USAGE, {"same_subject": subject, "since": since}).one_or_none()
    return None if row is None else usage_of_row(*row[1:])


def usage_in_project(tx: sa.Connection, project_id: str, since: datetime) -> dict[str, Usage | None]:
    """Return what the services of a project use now, as `usage_of` does of one."""
    rows = tx.execute(_USAGES_IN_PROJECT, {"same_project": project_id, "since": since})
    return {row[0]: usage_of_row(*row[1:]) for row in rows}


def list_samples(
    tx: sa.Connection, subject: str, begin: datetime, end: datetime, part: timedelta | None = None
) -> list[Sample]:
    """Return the samples of a subject from `begin` to before `end`, oldest first; the last one in each `part` of it."""
    own = (metric_sample.c.subject == subject) & (metric_sample.c.at >= begin) & (metric_sample.c.at < end)
    query = metric_sample.select().where(own).order_by(metric_sample.c.at)
    if part is not None:
        lasts = _last_of_each(own, part)
        query = query.join_from(metric_sample, lasts, lasts.c.at == metric_sample.c.at)
    return [Sample(row.at, row.measured) for row in tx.execute(query)]


def list_values(
    tx: sa.Connection, subject: str, key: str, begin: datetime, end: datetime, part: timedelta
) -> list[tuple[datetime, float]]:
    """Return a value of the samples of a subject, the last one in each part of the time, oldest first."""
    lasts = _last_of_each((metric_sample.c.subject == subject) & metric_sample.c.at.between(begin, end), part)
    value = metric_sample.c.measured[key].as_float()
    query = sa.select(metric_sample.c.at, value.label("value")).join(lasts, lasts.c.at == metric_sample.c.at)
    there = (metric_sample.c.subject == subject) & value.is_not(None)
    return [(row.at, row.value) for row in tx.execute(query.where(there).order_by(metric_sample.c.at))]


def last_sample(tx: sa.Connection, subject: str, since: datetime) -> Sample | None:
    """Return the newest sample of a subject, None when that is older than `since`."""
    own = (metric_sample.c.subject == subject) & (metric_sample.c.at >= since)
    row = tx.execute(metric_sample.select().where(own).order_by(metric_sample.c.at.desc()).limit(1)).one_or_none()
    return None if row is None else Sample(row.at, row.measured)


def last_sample_with(tx: sa.Connection, subject: str, key: str) -> Sample | None:
    """Return the newest sample of a subject that has a value, however old; None without one."""
    own = (metric_sample.c.subject == subject) & metric_sample.c.measured[key].as_float().is_not(None)
    row = tx.execute(metric_sample.select().where(own).order_by(metric_sample.c.at.desc()).limit(1)).one_or_none()
    return None if row is None else Sample(row.at, row.measured)


def subjects(tx: sa.Connection) -> list[str]:
    """Return the services and sets of which there are samples, whether they exist or not."""
    found = [""]
    while (following := tx.scalar(_FOLLOWING, {"subject": found[-1]})) is not None:
        found.append(following)
    return found[1:]


def remove_old(tx: sa.Connection, subject: str, now: datetime, most: int) -> int:
    """Remove up to `most` old samples of a subject, or any if it is deleted or failed, and return how many.

    Of the samples that are to be thinned the first one in ten minutes stays.
    """
    before = now - KEPT_THINNED if any(tx.execute(one, {"subject": subject}).first() for one in _LIVING) else None
    own = metric_sample.c.subject == subject
    outdated = sa.select(metric_sample.c.at).where(own if before is None else own & (metric_sample.c.at < before))
    removed = _remove(tx, own, outdated.order_by(metric_sample.c.at).limit(most))
    if before is None or removed == most:
        return removed
    times = sa.select(
        metric_sample.c.at, sa.func.lag(metric_sample.c.at).over(order_by=metric_sample.c.at).label("last")
    )
    timed = times.where(own, metric_sample.c.at < now - KEPT_WHOLE).subquery()
    micros, last_micros = (sa.type_coerce(each, sa.BigInteger) for each in (timed.c.at, timed.c.last))
    surplus = sa.select(timed.c.at).where(last_micros >= micros - micros % _SLICE_MICROS)
    return removed + _remove(tx, own, surplus.limit(most - removed))


def remove_usage_of_gone(tx: sa.Connection, most: int) -> int:
    """Remove what is known of the use of up to `most` services and sets that are deleted or failed; return how many."""
    lives = sa.or_(*(sa.exists().where(each.c.id == last_usage.c.subject, is_live(each)) for each in _SUBJECTS))
    gone = sa.select(last_usage.c.subject).where(sa.not_(lives)).limit(most)
    return int(tx.execute(last_usage.delete().where(last_usage.c.subject.in_(gone))).rowcount)


def _remove(tx: sa.Connection, own: sa.ColumnElement[bool], times: sa.Select[tuple[datetime]]) -> int:
    return int(tx.execute(metric_sample.delete().where(own, metric_sample.c.at.in_(times))).rowcount)


def _last_of_each(wanted: sa.ColumnElement[bool], part: timedelta) -> sa.Subquery:
    """Return the time of the last wanted sample in each part of the time."""
    micros = sa.type_coerce(metric_sample.c.at, sa.BigInteger)
    length = part // timedelta(microseconds=1)
    grouped = sa.select(sa.func.max(metric_sample.c.at).label("at")).where(wanted).group_by(micros - micros % length)
    return grouped.subquery()


def _lives(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.ready_at.is_not(None) & is_live(table)


def usage_of_row(is_current: bool | None, *figures: int | None) -> Usage | None:
    """Return what `usage_columns` say, None when they say nothing."""
    known = figures if is_current else (None, None, None, figures[-1])
    return None if known == (None, None, None, None) else Usage(*known)
