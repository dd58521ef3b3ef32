"""Rows of events, in the order in which they were committed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet.model.events import ENDED_BY, Event, EventFilter, EventType
from ramet.store.rows import values_of
from ramet.store.tables import delivery, event, is_live, service

_LOCK = 7203451982
_ENDS = sa.case({begin.value: end.value for begin, end in ENDED_BY.items()}, value=event.c.type)
_NEWEST = sa.select(sa.func.max(event.c.sequence))


def append(
    tx: sa.Connection, at: datetime, project_id: str, type_: EventType, service_id: str | None, data: dict[str, object]
) -> Event:
    """Add an event. No other process adds one before the transaction ends, so that a reader misses none."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    new = Event(sequence=newest(tx) + 1, at=at, project_id=project_id, type=type_, service_id=service_id, data=data)
    row = {name: getattr(new, name) for name in new.__struct_fields__}
    tx.execute(event.insert(), row | {"type": new.type.value})
    return new


def newest(tx: sa.Connection) -> int:
    """Return the number of the newest event of all projects; 0 when there is none."""
    return int(tx.scalar(_NEWEST) or 0)


def last_of(tx: sa.Connection, project_id: str, types: tuple[EventType, ...], service_id: str | None) -> Event | None:
    """Return the newest event of these types about a service, or about the project."""
    same = (event.c.project_id == project_id) & event.c.type.in_([one.value for one in types])
    same &= event.c.service_id.is_(None) if service_id is None else event.c.service_id == service_id
    row = tx.execute(event.select().where(same).order_by(event.c.sequence.desc()).limit(1)).one_or_none()
    return None if row is None else _event(row)


def list_events(tx: sa.Connection, wanted: EventFilter, limit: int, before: int | None = None) -> list[Event]:
    """Return up to `limit` events, newest first, of those with numbers below `before`."""
    query = event.select().where(_condition(wanted))
    if before is not None:
        query = query.where(event.c.sequence < before)
    return [_event(row) for row in tx.execute(query.order_by(event.c.sequence.desc()).limit(limit))]


def events_after(tx: sa.Connection, wanted: EventFilter, after: int, limit: int) -> list[Event]:
    """Return up to `limit` events that follow a number, oldest first."""
    query = event.select().where(_condition(wanted), event.c.sequence > after)
    return [_event(row) for row in tx.execute(query.order_by(event.c.sequence).limit(limit))]


def list_of_types(tx: sa.Connection, project_id: str, types: Sequence[EventType], limit: int) -> list[Event]:
    """Return up to `limit` events of these types, newest first."""
    wanted = (event.c.project_id == project_id) & event.c.type.in_([one.value for one in types])
    return [
        _event(row) for row in tx.execute(event.select().where(wanted).order_by(event.c.sequence.desc()).limit(limit))
    ]


def count_after(tx: sa.Connection, project_id: str, types: Sequence[EventType], after: int, most: int) -> int:
    """Return how many events of these types follow a number; `most` when there are more."""
    wanted = (event.c.project_id == project_id) & (event.c.sequence > after)
    wanted &= event.c.type.in_([one.value for one in types])
    found = sa.select(sa.true()).where(wanted).limit(most).subquery()
    return int(tx.scalar(sa.select(sa.func.count()).select_from(found)) or 0)


def get_event(tx: sa.Connection, sequence: int) -> Event | None:
    """Return an event, or None."""
    row = tx.execute(event.select().where(event.c.sequence == sequence)).one_or_none()
    return None if row is None else _event(row)


def remove_old(tx: sa.Connection, before: datetime, most: int) -> int:
    """Remove up to `most` events from before a time, with their deliveries; return how many events.

    The newest of all stays: numbers are not used again. So does one that says what is wrong with a service, until that
    is over: its end is an event only after its beginning.
    """
    old = sa.select(event.c.sequence).where(event.c.at < before, event.c.sequence < newest(tx), ~_lasts())
    numbers = tx.scalars(old.order_by(event.c.sequence).limit(most)).all()
    if not numbers:
        return 0
    count = tx.execute(event.delete().where(event.c.sequence.in_(numbers))).rowcount
    # Also those that an earlier release, or an earlier call, has left of events that it had removed. One that somebody
    # else has locked is left: who deletes a webhook locks its deliveries in another order.
    is_gone = ~sa.exists().where(event.c.sequence == delivery.c.event_sequence)
    left = sa.select(delivery.c.id).where(delivery.c.event_sequence <= numbers[-1], is_gone)
    tx.execute(delivery.delete().where(delivery.c.id.in_(left.with_for_update(skip_locked=True))))
    return int(count)


def _lasts() -> sa.ColumnElement[bool]:
    """Return the condition for events that say what is wrong with a service that lives, as long as it is."""
    end = event.alias()
    later = (end.c.project_id == event.c.project_id) & (end.c.sequence > event.c.sequence)
    ended = sa.exists().where(later, end.c.service_id == event.c.service_id, end.c.type == _ENDS)
    return event.c.service_id.in_(sa.select(service.c.id).where(is_live(service))) & _ENDS.is_not(None) & ~ended


def _condition(wanted: EventFilter) -> sa.ColumnElement[bool]:
    condition = event.c.project_id == wanted.project_id
    if wanted.type is not None:
        condition &= event.c.type == wanted.type.value
    if wanted.service_id is not None:
        condition &= event.c.service_id == wanted.service_id
    return condition


def _event(row: sa.Row[Any]) -> Event:
    values = values_of(row)
    return msgspec.convert(values | {"data": values["data"] or {}}, Event)
