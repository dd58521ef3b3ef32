"""Events and deliveries on SQLite and PostgreSQL."""

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from ramet.model.events import EventFilter, EventType
from ramet.store import events, webhooks
from ramet.store.database import Store
from ramet.store.tables import delivery, event
from ramet.store.webhooks import Due, WebhookRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store.open(url)
    yield made
    made.close()


def _webhook(store: Store, webhook_id: str, project_id: str = "p") -> None:
    row = WebhookRow(webhook_id, project_id, "https://x", "", [], True, None, "sealed", None, None, None, NOW)
    with store.write() as tx:
        webhooks.insert(tx, row)


def _event(store: Store, project_id: str = "p") -> None:
    with store.write() as tx:
        made = events.append(tx, NOW, project_id, EventType.WEBHOOK_TEST, None, {"a": 1})
        for row in webhooks.list_enabled(tx, project_id):
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
        assert [one.sequence for one in events.events_after(tx, EventFilter("p"), 0, 100)] == [*range(1, 13)]
        assert [one.sequence for one in events.list_events(tx, EventFilter("p"), 2, before=12)] == [11, 10]


def _leased(store: Store, now: datetime, most: int = 8, busy: dict[str, str] | None = None) -> list[Due]:
    with store.read() as tx:
        due = webhooks.list_due(tx, now, most, 2, busy or {})
    with store.write() as tx:
        return webhooks.lease(tx, due, now)


def test_each_due_delivery_is_leased_once_and_again_when_its_lease_is_over(store: Store) -> None:
    for webhook_id in ("one", "two"):
        _webhook(store, webhook_id)
    for _ in range(2):
        _event(store)
    first = _leased(store, NOW)
    assert [each.webhook_id for each in first] == ["one", "two"]
    later = NOW + webhooks.LEASE + timedelta(seconds=1)
    with store.write() as tx:
        assert not webhooks.record_attempt(tx, first[0].delivery_id, 2, status="DELIVERED")
        assert webhooks.record_attempt(tx, first[0].delivery_id, 1, status="DELIVERED", next_at=None)
    assert len(_leased(store, later)) == 2


def test_what_another_process_has_leased_since_it_was_read_is_not_leased(store: Store) -> None:
    _webhook(store, "one")
    _event(store)
    with store.read() as tx:
        due = webhooks.list_due(tx, NOW, 8, 2)
    assert _leased(store, NOW) == due
    with store.write() as tx:
        assert webhooks.lease(tx, due, NOW) == []


def test_to_one_webhook_no_process_sends_while_another_one_does(store: Store) -> None:
    _webhook(store, "one")
    for _ in range(2):
        _event(store)
    with store.read() as tx:
        first, second = sorted(webhooks.list_deliveries(tx, "one", 2), key=lambda one: one.event_sequence)
    (leased,) = _leased(store, NOW)
    assert leased.delivery_id == first.id
    assert _leased(store, NOW) == []
    with store.write() as tx:
        assert webhooks.lease(tx, [Due(second.id, "one", "p")], NOW) == []  # which was read before the first was leased
        failed = {"next_at": NOW + timedelta(seconds=5), "error": "The target answered 500."}
        assert webhooks.record_attempt(tx, first.id, 1, **failed)
    assert [each.delivery_id for each in _leased(store, NOW)] == [second.id]
    again = NOW + timedelta(seconds=6)
    assert _leased(store, again) == []
    with store.write() as tx:
        assert webhooks.record_attempt(tx, second.id, 1, status="DELIVERED", next_at=None)
    assert [each.delivery_id for each in _leased(store, again)] == [first.id]
    assert _leased(store, again) == []


def test_to_one_webhook_no_process_sends_while_one_does_whose_clock_is_ahead(store: Store) -> None:
    _webhook(store, "one")
    for _ in range(2):
        _event(store)
    ahead = NOW + timedelta(milliseconds=100)
    assert len(_leased(store, ahead)) == 1
    assert _leased(store, NOW) == []
    assert _leased(store, NOW + webhooks.LEASE) == []
    assert len(_leased(store, ahead + webhooks.LEASE)) == 1


def test_a_project_with_many_due_deliveries_leaves_others_their_turn(store: Store) -> None:
    for webhook_id in ("one", "two", "three"):
        _webhook(store, webhook_id, "loud")
    _webhook(store, "four", "quiet")
    for _ in range(3):
        _event(store, "loud")
    _event(store, "quiet")
    first = _leased(store, NOW)
    assert sorted(each.project_id for each in first) == ["loud", "loud", "quiet"]
    assert _leased(store, NOW, busy={each.webhook_id: each.project_id for each in first}) == []
    assert [each.project_id for each in _leased(store, NOW, busy={"gone": "loud", "four": "quiet"})] == ["loud"]


def test_due_deliveries_behind_the_backlog_of_one_webhook_are_found(store: Store) -> None:
    for webhook_id, project_id in (("one", "loud"), ("two", "quiet")):
        _webhook(store, webhook_id, project_id)
        for _ in range(21):
            _event(store, project_id)
    assert [each.webhook_id for each in _leased(store, NOW, most=2)] == ["one", "two"]


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
        assert [one.event_sequence for one in webhooks.list_deliveries(tx, "one", 5)] == [3]
        webhooks.delete(tx, "one")
        assert webhooks.list_of(tx, "p") == []


def test_deliveries_whose_event_is_gone_are_not_listed_and_go_with_the_next_old_events(store: Store) -> None:
    _webhook(store, "one")
    for _ in range(3):
        _event(store)
    with store.write() as tx:
        (gone,) = (one for one in webhooks.list_deliveries(tx, "one", 3) if one.event_sequence == 1)
        tx.execute(event.delete().where(event.c.sequence == 1))
        assert webhooks.get_delivery(tx, gone.id) is None
        assert len(webhooks.list_deliveries(tx, "one", 5)) == 2
        assert events.remove_old(tx, NOW + timedelta(days=1), 10) == 1
        assert len(tx.execute(delivery.select()).all()) == 1


@pytest.mark.servers
def test_deliveries_of_old_events_that_somebody_has_locked_are_left_for_the_next_time(postgresql_url: str) -> None:
    with contextlib.closing(Store.open(postgresql_url)) as store:
        _webhook(store, "one")
        for _ in range(4):
            _event(store)
        with store.engine.begin() as other:
            other.execute(delivery.select().where(delivery.c.event_sequence == 1).with_for_update())
            with store.write() as tx:
                assert events.remove_old(tx, NOW + timedelta(days=1), 2) == 2
        with store.write() as tx:
            assert set(tx.scalars(sa.select(delivery.c.event_sequence))) == {1, 3, 4}
            assert events.remove_old(tx, NOW + timedelta(days=1), 2) == 1
            assert set(tx.scalars(sa.select(delivery.c.event_sequence))) == {4}
