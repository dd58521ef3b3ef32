"""Events and deliveries on SQLite and PostgreSQL."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ramet.model.events import EventType
from ramet.store import events, webhooks
from ramet.store.database import Store
from ramet.store.webhooks import WebhookRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store.open(url)
    yield made
    made.close()


def _webhook(store: Store, webhook_id: str) -> None:
    row = WebhookRow(webhook_id, "p", "https://x", "", [], True, None, "sealed", None, None, None, NOW)
    with store.write() as tx:
        webhooks.insert(tx, row)


def _event(store: Store) -> None:
    with store.write() as tx:
        made = events.append(tx, NOW, "p", EventType.WEBHOOK_TEST, None, {"a": 1})
        for row in webhooks.list_of(tx, "p", enabled_only=True):
            webhooks.add_delivery(tx, row.id, made, NOW)


def test_events_of_writers_at_the_same_time_have_numbers_without_a_gap(store: Store) -> None:
    def write() -> None:
        for _ in range(4):
            _event(store)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as tx:
        assert [one.sequence for one in events.events_after(tx, "p", 0, 100)] == [*range(1, 13)]
        assert [one.sequence for one in events.list_events(tx, "p", 2, before=12)] == [11, 10]


def test_each_due_delivery_is_leased_once_and_again_when_its_lease_is_over(store: Store) -> None:
    for webhook_id in ("one", "two"):
        _webhook(store, webhook_id)
    for _ in range(2):
        _event(store)
    with store.write() as tx:
        first = webhooks.lease_due(tx, NOW, 60, 8)
    assert [webhook_id for _, webhook_id in first] == ["one", "two"]
    with store.write() as tx:
        second = webhooks.lease_due(tx, NOW, 60, 8, busy=["two"])
    assert [webhook_id for _, webhook_id in second] == ["one"]
    later = NOW + timedelta(seconds=61)
    with store.write() as tx:
        assert webhooks.has_due(tx, later)
        assert not webhooks.record_attempt(tx, first[0][0], 2, status="DELIVERED")
        assert webhooks.record_attempt(tx, first[0][0], 1, status="DELIVERED", next_at=None)
        assert len(webhooks.lease_due(tx, later, 60, 8)) == 2


def test_deliveries_have_pages_and_go_with_their_events(store: Store) -> None:
    _webhook(store, "one")
    for _ in range(3):
        _event(store)
    with store.write() as tx:
        newest = webhooks.list_deliveries(tx, "one", 2)
        rest = webhooks.list_deliveries(tx, "one", 2, before=(newest[-1].created_at, newest[-1].id))
        assert len({one.id for one in (*newest, *rest)}) == 3
        webhooks.give_up(tx, "one", NOW, "gone")
        assert len(webhooks.list_deliveries(tx, "one", 5, status="FAILED")) == 3
        assert webhooks.try_again(tx, "one", NOW, newest[0].id) == 1
        assert events.remove_old(tx, NOW + timedelta(days=1), 10) == 2
        assert webhooks.remove_orphans(tx, 10) == 2
        webhooks.delete(tx, "one")
        assert webhooks.list_of(tx, "p") == []
