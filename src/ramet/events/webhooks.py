"""The verbs over webhooks. A secret is shown when it is made, and stored sealed."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from ramet import acting
from ramet.control.plane import Plane
from ramet.errors import Exhausted, Invalid, NotFound, WrongState
from ramet.events.sealing import seal, unseal
from ramet.events.signature import derived_secret, new_secret
from ramet.events.targets import check_url
from ramet.ids import new_id
from ramet.model.cursor import PAGE, Page, check_limit, cursor_of, decode_cursor, page_of, time_and_id
from ramet.model.events import (
    LONGEST_DESCRIPTION,
    LONGEST_OVERLAP_SECONDS,
    OVERLAP_SECONDS,
    Delivery,
    DeliveryStatus,
    EventType,
    Webhook,
)
from ramet.model.passwords import Secret
from ramet.model.secret_marks import check_mark
from ramet.store import events, projects
from ramet.store import webhooks as rows
from ramet.store.webhooks import WebhookRow

MOST_WEBHOOKS = 20


def create_webhook(
    plane: Plane, project_id: str, url: str, types: Sequence[str] = (), description: str = ""
) -> Webhook:
    """Make a webhook of a project; only this shows its secret. Raises Invalid, Exhausted."""
    webhook_id, secret = new_id(), new_secret()
    row = WebhookRow(
        id=webhook_id,
        project_id=project_id,
        url=check_url(url),
        description=_description(description),
        types=_types(types),
        enabled=True,
        disabled_reason=None,
        sealed_secret=seal(plane.root_key, webhook_id, secret),
        sealed_previous=None,
        previous_until=None,
        failing_since=None,
        created_at=plane.clock(),
    )
    acting.note(subject=webhook_id)
    with plane.store.write() as tx:
        projects.get_project(tx, project_id, lock=True)  # two requests do not count the same webhooks
        if len(rows.list_of(tx, project_id)) >= MOST_WEBHOOKS:
            raise Exhausted(
                "TOO_MANY_WEBHOOKS", f"The project has {MOST_WEBHOOKS} webhooks, and may have no more", "Delete one."
            )
        rows.insert(tx, row)
    return opened(plane, row)


def list_webhooks(plane: Plane, project_id: str) -> list[Webhook]:
    """Return the webhooks of a project, oldest first."""
    with plane.store.read() as tx:
        found = rows.list_of(tx, project_id)
    return [opened(plane, row) for row in found]


def get_webhook(plane: Plane, project_id: str, webhook_id: str) -> Webhook:
    """Return a webhook. Raises NotFound."""
    with plane.store.read() as tx:
        return opened(plane, _find(tx, project_id, webhook_id))


def update_webhook(
    plane: Plane,
    project_id: str,
    webhook_id: str,
    *,
    url: str | None = None,
    types: Sequence[str] | None = None,
    description: str | None = None,
    enabled: bool | None = None,
) -> Webhook:
    """Change what is given. Enabling one that was disabled forgets its failures. Raises NotFound, Invalid."""
    columns: dict[str, Any] = {} if url is None else {"url": check_url(url)}
    columns |= {} if types is None else {"types": _types(types)}
    columns |= {} if description is None else {"description": _description(description)}
    if enabled is not None:
        reason = None if enabled else "It was disabled by request."
        columns |= {"enabled": enabled, "disabled_reason": reason, "failing_since": None}
    with plane.store.write() as tx:
        _find(tx, project_id, webhook_id, lock=True)
        if columns:
            rows.update(tx, webhook_id, **columns)
        return opened(plane, _find(tx, project_id, webhook_id))


def rotate_secret(
    plane: Plane,
    project_id: str,
    webhook_id: str,
    overlap_seconds: int = OVERLAP_SECONDS,
    *,
    mark: str | None = None,
    idempotency_key: str | None = None,
) -> Webhook:
    """Give a webhook a new secret, which only this shows; deliveries have both signatures during the overlap.

    `mark` is that of the secret to replace; None: whichever it is. With the `idempotency_key` of the last rotation
    the secret stays, as the request was repeated, and an overlap that ends earlier counts. Raises NotFound, Invalid,
    WrongState.
    """
    if not 0 <= overlap_seconds <= LONGEST_OVERLAP_SECONDS:
        raise Invalid(
            "INVALID_FIELD", f"overlap_seconds must be between 0 and {LONGEST_OVERLAP_SECONDS} (got {overlap_seconds})"
        )
    with plane.store.write() as tx:
        row = _find(tx, project_id, webhook_id, lock=True)
        webhook, secret = opened(plane, row), new_secret()
        until = plane.clock() + timedelta(seconds=overlap_seconds)
        if idempotency_key is not None:
            derived = partial(derived_secret, plane.root_key, webhook_id, idempotency_key)
            if webhook.previous_secret is not None and derived(webhook.previous_secret) == webhook.secret:
                if webhook.previous_until is not None and until < webhook.previous_until:
                    rows.update(tx, webhook_id, previous_until=until)
                return opened(plane, _find(tx, project_id, webhook_id))
            secret = derived(webhook.secret)
        check_mark(mark, webhook.secret.reveal(), f"Webhook {webhook_id}")
        sealed = seal(plane.root_key, webhook_id, secret)
        previous = {"sealed_previous": row.sealed_secret, "previous_until": until}
        rows.update(tx, webhook_id, sealed_secret=sealed, **previous)
        return opened(plane, _find(tx, project_id, webhook_id))


def delete_webhook(plane: Plane, project_id: str, webhook_id: str) -> None:
    """Remove a webhook with its deliveries. Raises NotFound."""
    with plane.store.write() as tx:
        _find(tx, project_id, webhook_id, lock=True)
        rows.delete(tx, webhook_id)


def send_test(plane: Plane, project_id: str, webhook_id: str) -> Delivery:
    """Deliver an event to a webhook that says nothing but that it works; return the delivery.

    Raises NotFound, and WrongState for one that is disabled.
    """
    with plane.store.write() as tx:
        _find_enabled(tx, project_id, webhook_id)
        data: dict[str, object] = {"webhook_id": webhook_id}
        made = events.append(tx, plane.clock(), project_id, EventType.WEBHOOK_TEST, None, data)
        delivery_id = rows.add_delivery(tx, webhook_id, made, plane.clock())
        return _delivery(tx, webhook_id, delivery_id)


def list_deliveries(
    plane: Plane,
    project_id: str,
    webhook_id: str,
    limit: int = PAGE,
    cursor: str | None = None,
    status: str | None = None,
) -> Page[Delivery]:
    """Return deliveries to a webhook, newest first. Raises NotFound, Invalid."""
    check_limit(limit)
    if status is not None and status not in tuple(DeliveryStatus):
        raise Invalid("INVALID_PARAMETER", f"status must be one of {', '.join(DeliveryStatus)} (got {status[:40]!r})")
    before = None if cursor is None else decode_cursor(cursor, time_and_id)
    with plane.store.read() as tx:
        _find(tx, project_id, webhook_id)
        found = rows.list_deliveries(tx, webhook_id, limit + 1, before, status)
    return page_of(found, limit, lambda one: cursor_of(one.created_at, one.id))


def redeliver(plane: Plane, project_id: str, webhook_id: str, delivery_id: str | None = None) -> int:
    """Deliver one delivery again, or all that failed; return how many.

    Raises NotFound, and WrongState for a webhook that is disabled.
    """
    with plane.store.write() as tx:
        _find_enabled(tx, project_id, webhook_id)
        if delivery_id is not None:
            _delivery(tx, webhook_id, delivery_id)
        return rows.try_again(tx, webhook_id, plane.clock(), delivery_id)


def opened(plane: Plane, row: WebhookRow) -> Webhook:
    """Return a webhook with its secrets unsealed."""
    previous = None if row.sealed_previous is None else unseal(plane.root_key, row.id, row.sealed_previous)
    return Webhook(
        id=row.id,
        project_id=row.project_id,
        url=row.url,
        description=row.description,
        types=tuple(map(EventType, row.types)),
        enabled=row.enabled,
        disabled_reason=row.disabled_reason,
        secret=unseal(plane.root_key, row.id, row.sealed_secret),
        previous_secret=previous,
        previous_until=row.previous_until,
        failing_since=row.failing_since,
        created_at=row.created_at,
    )


def keys_of(webhook: Webhook, now: datetime) -> list[Secret]:
    """Return the secrets that sign a delivery now, the newest first."""
    secret, previous, until = webhook.secret, webhook.previous_secret, webhook.previous_until
    return [secret] if previous is None or until is None or now >= until else [secret, previous]


def _find(tx: sa.Connection, project_id: str, webhook_id: str, *, lock: bool = False) -> WebhookRow:
    found = rows.find(tx, project_id, webhook_id[:64], lock=lock)
    if found is None:
        raise NotFound("WEBHOOK_NOT_FOUND", "no webhook with that id exists", f"webhook_id {webhook_id[:64]!r}")
    return found


def _find_enabled(tx: sa.Connection, project_id: str, webhook_id: str) -> WebhookRow:
    found = _find(tx, project_id, webhook_id, lock=True)
    if not found.enabled:
        raise WrongState(
            "WEBHOOK_DISABLED", f"Webhook {found.id} is disabled", f"{found.disabled_reason} Enable it first."
        )
    return found


def _delivery(tx: sa.Connection, webhook_id: str, delivery_id: str) -> Delivery:
    found = rows.get_delivery(tx, delivery_id[:64])
    if found is None or found.webhook_id != webhook_id:
        raise NotFound("DELIVERY_NOT_FOUND", "no delivery with that id exists", f"delivery_id {delivery_id[:64]!r}")
    return found


def _types(wanted: Sequence[str]) -> list[str]:
    known = [one.value for one in EventType if one is not EventType.WEBHOOK_TEST]
    if unknown := [one for one in wanted if one not in known]:
        raise Invalid("INVALID_FIELD", f"types contains {unknown[0][:64]!r}", f"Known types: {', '.join(known)}.")
    return sorted(set(wanted))


def _description(text: str) -> str:
    if len(text) > LONGEST_DESCRIPTION or not text.isprintable():
        raise Invalid("INVALID_FIELD", f"description must have at most {LONGEST_DESCRIPTION} printable characters")
    return text
