"""Delivers events to webhooks: at least once, with growing pauses between attempts, without disturbing anything else.

A delivery that is due is leased, so that one of several processes sends it, and no other one to the same webhook before
it has ended: they arrive in their order as long as none fails. Of a project a process sends two at a time, so that slow
targets delay no other project.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa

from ramet.control.plane import Plane
from ramet.errors import Error, Unavailable
from ramet.events.sender import Response, Sender
from ramet.events.signature import signed_headers
from ramet.events.webhooks import keys_of, opened
from ramet.model.events import Delivery, DeliveryStatus, Event
from ramet.model.timestamps import rfc3339
from ramet.store import events, webhooks
from ramet.store.webhooks import Due, WebhookRow

PAUSES = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds after each failed attempt; after the last of them one more attempt is made."""
DISABLED_AFTER = timedelta(days=5)
_JITTER = 0.2
_POLL_SECONDS = 1.0
_THREADS, _THREADS_OF_PROJECT = 8, 2
_GONE = 410
_log = logging.getLogger(__name__)


def payload(event: Event) -> bytes:
    """Return the body of a delivery: the same in every attempt."""
    return msgspec.json.encode({"type": event.type.value, "timestamp": rfc3339(event.at), "data": event.data})


@dataclass
class Dispatcher:
    """Sends what is due, in threads of its own. It may be woken from any thread."""

    plane: Plane
    sender: Sender
    jitter: Callable[[], float] = field(default=lambda: random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311
    _busy: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _woken: threading.Event = field(default_factory=threading.Event)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to deliver."""
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no more attempts; those under way are not awaited, and are made again if they are not recorded."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_POLL_SECONDS * 2)

    def wake(self) -> None:
        """Look for due deliveries now."""
        self._woken.set()

    def deliver_due(self) -> int:
        """Deliver what is due, in this thread, until nothing is; return the number of attempts."""
        count = 0
        while leased := self._lease(_THREADS):
            for each in leased:
                self._deliver(each.delivery_id, each.webhook_id)
            count += len(leased)
        return count

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                self._begin_due()
            except Unavailable as error:
                _log.warning("deliveries wait for the store: %s", error)
            except Exception:  # noqa: BLE001 - without its thread nothing would be delivered any more
                _log.exception("due deliveries could not be looked up")
            self._woken.wait(_POLL_SECONDS)

    def _begin_due(self) -> None:
        free = _THREADS - len(self._busy)
        for delivery_id, webhook_id, project_id in self._lease(free) if free > 0 else []:
            with self._lock:
                self._busy[webhook_id] = project_id
            # Not of a pool: the interpreter waits for the threads of a pool before it exits.
            attempt = threading.Thread(
                target=self._attempt, args=(delivery_id, webhook_id), name=f"webhook-{webhook_id}", daemon=True
            )
            try:
                attempt.start()
            except RuntimeError as error:  # as when the limit of threads is reached
                _log.warning("a delivery to webhook %s is not begun, and is made again: %s", webhook_id, error)
                with self._lock:
                    self._busy.pop(webhook_id, None)
                with suppress(Unavailable):  # it is made again when its lease ends
                    self._give_back(delivery_id)

    def _attempt(self, delivery_id: str, webhook_id: str) -> None:
        try:
            self._deliver(delivery_id, webhook_id)
        except Exception:  # noqa: BLE001 - what is not recorded is made again
            _log.exception("a delivery to webhook %s is not recorded, and is made again", webhook_id)
        finally:
            with self._lock:
                self._busy.pop(webhook_id, None)
            self._woken.set()

    def _lease(self, most: int) -> list[Due]:
        now = self.plane.clock()
        with self._lock:
            busy = dict(self._busy)
        with self.plane.store.read() as tx:
            if not webhooks.is_any_due(tx, now):
                return []
            due = webhooks.list_due(tx, now, most, _THREADS_OF_PROJECT, busy)
        if not due:
            return []
        with self.plane.store.write(patient=True) as tx:
            return webhooks.lease(tx, due, now)

    def _give_back(self, delivery_id: str) -> None:
        """Make a delivery that was leased due again, before later ones: no attempt was made, and none is counted."""
        with self.plane.store.write(patient=True) as tx:
            delivery = webhooks.get_delivery(tx, delivery_id)
            if delivery is not None and delivery.attempts > 0:  # one that was redelivered since then has none
                before = {"attempts": delivery.attempts - 1, "next_at": delivery.created_at}
                webhooks.record_attempt(tx, delivery.id, delivery.attempts, **before)

    def _deliver(self, delivery_id: str, webhook_id: str) -> None:
        with self.plane.store.read() as tx:
            delivery = webhooks.get_delivery(tx, delivery_id)
            event = None if delivery is None else events.get_event(tx, delivery.event_sequence)
            row = None if event is None else webhooks.find(tx, event.project_id, webhook_id)
        if delivery is None or event is None or row is None:
            return
        self._record(delivery, row, self._send(delivery, event, row))

    def _send(self, delivery: Delivery, event: Event, row: WebhookRow) -> Response:
        now = self.plane.clock()
        try:
            keys = keys_of(opened(self.plane, row), now)
        except Error as error:
            return Response(None, error.message)
        body = payload(event)
        return self.sender.send(row.url, signed_headers(delivery.id, now, body, keys), body)

    def _record(self, delivery: Delivery, row: WebhookRow, response: Response) -> None:
        now = self.plane.clock()
        found = {"response_status": response.status, "error": response.error}
        if response.is_success:
            with self._recording(row) as tx:
                done = {"status": DeliveryStatus.DELIVERED.value, "next_at": None, "finished_at": now}
                webhooks.record_attempt(tx, delivery.id, delivery.attempts, **done, **found)
                if row.failing_since is not None:
                    webhooks.update(tx, row.id, failing_since=None)
            return
        is_last = delivery.attempts > len(PAUSES)
        pause = timedelta(seconds=0 if is_last else PAUSES[delivery.attempts - 1] * self.jitter())
        over = {"status": DeliveryStatus.FAILED.value, "next_at": None, "finished_at": now}
        columns = over if is_last else {"next_at": now + pause}
        with self._recording(row) as tx:
            webhooks.record_attempt(tx, delivery.id, delivery.attempts, **columns, **found)
            since = row.failing_since or now
            if row.failing_since is None:
                webhooks.update(tx, row.id, failing_since=now)
            if (reason := _reason_to_disable(response, since, now)) is not None:
                webhooks.update(tx, row.id, enabled=False, disabled_reason=reason)
                webhooks.give_up(tx, row.id, now, reason)
                _log.warning("webhook %s is disabled: %s", row.id, reason)

    @contextmanager
    def _recording(self, row: WebhookRow) -> Iterator[sa.Connection]:
        """A transaction in which a webhook is locked, before deliveries to it: who deletes it has the same order."""
        with self.plane.store.write(patient=True) as tx:
            webhooks.find(tx, row.project_id, row.id, lock=True)
            yield tx


def _reason_to_disable(response: Response, since: datetime, now: datetime) -> str | None:
    if response.status == _GONE:
        return "The target answered 410: it wants no more deliveries."
    if now - since >= DISABLED_AFTER:
        return f"No delivery has succeeded since {rfc3339(since)}: {response.error}"
    return None
