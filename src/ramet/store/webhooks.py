"""Rows of webhooks and of the deliveries to them. Secrets are sealed before they come here."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ramet.ids import new_id
from ramet.model.events import Delivery, DeliveryStatus, Event
from ramet.store.database import locking
from ramet.store.rows import values_of
from ramet.store.tables import delivery, event, webhook

LEASE = timedelta(seconds=120)
"""How long an attempt may take until another process makes it again; no other to the same webhook begins before."""
# A literal: SQLite uses a partial index only for a condition without parameters.
_PENDING = delivery.c.status == sa.literal_column(f"'{DeliveryStatus.PENDING.value}'")
_any_due = sa.select(delivery.c.id).where(_PENDING, delivery.c.next_at <= sa.bindparam("now")).limit(1)


@dataclass(frozen=True)
class WebhookRow:
    """A webhook as it is stored."""

    id: str
    project_id: str
    url: str
    description: str
    types: list[str]
    enabled: bool
    disabled_reason: str | None
    sealed_secret: str
    sealed_previous: str | None
    previous_until: datetime | None
    failing_since: datetime | None
    created_at: datetime


class Due(NamedTuple):
    """A delivery that is to be sent."""

    delivery_id: str
    webhook_id: str
    project_id: str


def insert(tx: sa.Connection, row: WebhookRow) -> None:
    """Add a webhook."""
    tx.execute(webhook.insert(), vars(row))


def find(tx: sa.Connection, project_id: str, webhook_id: str, *, lock: bool = False) -> WebhookRow | None:
    """Return a webhook of a project, or None. Who changes deliveries to it locks it before them."""
    query = webhook.select().where(webhook.c.id == webhook_id, webhook.c.project_id == project_id)
    row = tx.execute(locking(query) if lock else query).one_or_none()
    return None if row is None else WebhookRow(**values_of(row))


def list_of(tx: sa.Connection, project_id: str) -> list[WebhookRow]:
    """Return the webhooks of a project, oldest first."""
    return _webhooks(tx, _of_project(project_id))


def list_enabled(tx: sa.Connection, project_id: str) -> list[WebhookRow]:
    """Return the webhooks of a project that get deliveries, oldest first; none is deleted until the transaction ends.

    It waits for nobody but who deletes one of them.
    """
    return _webhooks(tx, _of_project(project_id).where(webhook.c.enabled).with_for_update(read=True, key_share=True))


def _of_project(project_id: str) -> sa.Select[Any]:
    of_project = webhook.select().where(webhook.c.project_id == project_id)
    return of_project.order_by(webhook.c.created_at, webhook.c.id)


def _webhooks(tx: sa.Connection, query: sa.Select[Any]) -> list[WebhookRow]:
    return [WebhookRow(**values_of(row)) for row in tx.execute(query)]


def update(tx: sa.Connection, webhook_id: str, **columns: Any) -> None:
    """Set columns of a webhook."""
    tx.execute(webhook.update().where(webhook.c.id == webhook_id).values(**columns))


def delete(tx: sa.Connection, webhook_id: str) -> None:
    """Remove a webhook and its deliveries, when all who add deliveries to it have ended."""
    tx.execute(sa.select(webhook.c.id).where(webhook.c.id == webhook_id).with_for_update())
    tx.execute(delivery.delete().where(delivery.c.webhook_id == webhook_id))
    tx.execute(webhook.delete().where(webhook.c.id == webhook_id))


def add_delivery(tx: sa.Connection, webhook_id: str, made: Event, now: datetime) -> str:
    """Add a delivery of an event that is due at once; return its id."""
    delivery_id = f"msg_{new_id()}{new_id()}"
    tx.execute(
        delivery.insert(),
        {
            "id": delivery_id,
            "webhook_id": webhook_id,
            "event_sequence": made.sequence,
            "status": DeliveryStatus.PENDING.value,
            "attempts": 0,
            "next_at": now,
            "created_at": now,
        },
    )
    return delivery_id


def is_any_due(tx: sa.Connection, now: datetime) -> bool:
    """Tell whether a delivery is due, to whichever webhook: a quick look for what `list_due` may return."""
    return tx.execute(_any_due, {"now": now}).first() is not None


def list_due(
    tx: sa.Connection, now: datetime, most: int, most_of_project: int, busy: Mapping[str, str] = MappingProxyType({})
) -> list[Due]:
    """Return up to `most` due deliveries, one for each webhook to which no other is under way.

    `busy` names the webhooks to which this process sends, and the project of each.
    A project has `most_of_project` at a time, with the busy ones.
    """
    chosen: dict[str, Due] = {}
    used = Counter(busy.values())
    limit = most * 10
    found: Sequence[Any] = [None] * limit
    while len(chosen) < most and len(found) == limit:
        full = [project_id for project_id, count in used.items() if count >= most_of_project]
        found = tx.execute(_due(now, {*busy, *chosen}, full).limit(limit)).all()
        for row in found:
            if len(chosen) < most and row.webhook_id not in chosen and used[row.project_id] < most_of_project:
                chosen[row.webhook_id] = Due(*row)
                used[row.project_id] += 1
    return list(chosen.values())


def lease(tx: sa.Connection, due: Sequence[Due], now: datetime) -> list[Due]:
    """Lease those of `due` that no other process has leased since they were read, one for each webhook.

    A lease puts off the next attempt: whoever has it records the result before, or another process tries again. The
    result of the attempt before is forgotten: a delivery that has none and was begun is under way.
    """
    mine = webhook.c.id.in_([each.webhook_id for each in due])
    lock = sa.select(webhook.c.id).where(mine).with_for_update(key_share=True, skip_locked=True)
    locked = set(tx.scalars(lock))
    locked -= set(tx.scalars(_under_way(now)))  # after the lock, so that what others have leased is seen
    wanted = delivery.c.id.in_([each.delivery_id for each in due if each.webhook_id in locked])
    still_due = sa.select(delivery.c.id).where(wanted, _PENDING, delivery.c.next_at <= now)
    free = set(tx.scalars(still_due.with_for_update(skip_locked=True)))
    leased = delivery.update().where(delivery.c.id.in_(free))
    begun = {"next_at": now + LEASE, "attempts": delivery.c.attempts + 1, "response_status": None, "error": None}
    tx.execute(leased.values(begun))
    return [each for each in due if each.delivery_id in free]


def _under_way(now: datetime) -> sa.Select[Any]:
    """Return the query of the webhooks to which some process makes an attempt.

    The clock of that process may be ahead. A lease that ends much later was made before a clock was set back.
    """
    lives = (delivery.c.next_at > now) & (delivery.c.next_at <= now + 2 * LEASE)
    return sa.select(delivery.c.webhook_id).where(_PENDING, lives, delivery.c.attempts > 0, delivery.c.error.is_(None))


def _due(now: datetime, without: Collection[str], without_projects: Collection[str]) -> sa.Select[Any]:
    """Return the query of due deliveries, oldest first, without those to some webhooks and of some projects."""
    return (
        sa.select(delivery.c.id, delivery.c.webhook_id, webhook.c.project_id)
        .join(webhook, webhook.c.id == delivery.c.webhook_id)
        .where(_PENDING, delivery.c.next_at <= now, webhook.c.enabled)
        .where(webhook.c.id.not_in(_under_way(now)))
        .where(webhook.c.id.not_in(without), webhook.c.project_id.not_in(without_projects))
        .order_by(delivery.c.next_at, delivery.c.created_at, delivery.c.event_sequence)
    )


def record_attempt(tx: sa.Connection, delivery_id: str, attempt: int, **columns: Any) -> bool:
    """Record the result of an attempt; False when another process has begun a later one, or it was removed."""
    same = (delivery.c.id == delivery_id) & (delivery.c.attempts == attempt) & _PENDING
    return tx.execute(delivery.update().where(same).values(**columns)).rowcount == 1


def get_delivery(tx: sa.Connection, delivery_id: str) -> Delivery | None:
    """Return a delivery, or None."""
    row = tx.execute(_deliveries().where(delivery.c.id == delivery_id)).one_or_none()
    return None if row is None else _delivery(row)


def list_deliveries(
    tx: sa.Connection,
    webhook_id: str,
    limit: int,
    before: tuple[datetime, str] | None = None,
    status: str | None = None,
) -> list[Delivery]:
    """Return up to `limit` deliveries to a webhook, newest first, of those before a time and an id."""
    query = _deliveries().where(delivery.c.webhook_id == webhook_id)
    if status is not None:
        query = query.where(delivery.c.status == status)
    if before is not None:
        place = sa.tuple_(delivery.c.created_at, delivery.c.id)
        query = query.where(place < sa.tuple_(sa.literal(before[0], delivery.c.created_at.type), sa.literal(before[1])))
    rows = tx.execute(query.order_by(delivery.c.created_at.desc(), delivery.c.id.desc()).limit(limit))
    return [_delivery(row) for row in rows]


def try_again(tx: sa.Connection, webhook_id: str, now: datetime, delivery_id: str | None) -> int:
    """Make one delivery to a webhook due again, or all that failed; return how many."""
    which = delivery.c.webhook_id == webhook_id
    which &= (delivery.c.status == DeliveryStatus.FAILED.value) if delivery_id is None else delivery.c.id == delivery_id
    again = {"status": DeliveryStatus.PENDING.value, "attempts": 0, "next_at": now, "finished_at": None}
    return int(tx.execute(delivery.update().where(which).values(**again)).rowcount)


def give_up(tx: sa.Connection, webhook_id: str, now: datetime, error: str) -> None:
    """End the deliveries to a webhook that are pending."""
    ended = {"status": DeliveryStatus.FAILED.value, "next_at": None, "finished_at": now, "error": error}
    tx.execute(delivery.update().where(delivery.c.webhook_id == webhook_id, _PENDING).values(**ended))


def _deliveries() -> sa.Select[Any]:
    joined = delivery.join(event, event.c.sequence == delivery.c.event_sequence)
    return sa.select(delivery, event.c.type.label("event_type")).select_from(joined)


def _delivery(row: sa.Row[Any]) -> Delivery:
    return msgspec.convert(values_of(row), Delivery)
