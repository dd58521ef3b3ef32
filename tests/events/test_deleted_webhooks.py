"""A webhook that is deleted while something is recorded for it: on PostgreSQL, where transactions run side by side."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.events.dispatcher import Dispatcher
from ramet.events.recorder import EventRecorder
from ramet.events.webhooks import create_webhook, delete_webhook, redeliver, send_test
from ramet.model.events import EventType, Webhook
from ramet.store import webhooks
from tests.api.world import World, open_world
from tests.events.conftest import Receiver

pytestmark = pytest.mark.servers
_WAITING = sa.text("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@pytest.fixture
def world(tmp_path: Path, postgresql_url: str) -> Iterator[World]:
    for made in open_world(tmp_path, postgresql_url):
        made.store.recorders.insert(0, EventRecorder(made.clock).record)
        yield made


class Deletion:
    """Deletes a webhook in a thread, as soon as a function of the store was called by another one."""

    def __init__(self, world: World, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world, self._webhook, self._patch = world, webhook, monkeypatch
        self._pool = ThreadPoolExecutor(1)
        self._done: Future[None] | None = None

    def beside(self, name: str, *, before: bool = False) -> None:
        called: Callable[..., Any] = getattr(webhooks, name)

        def interrupted(*given: Any, **named: Any) -> Any:
            if before:
                self._begin()
            answer = called(*given, **named)
            if not before:
                self._begin()
            return answer

        self._patch.setattr(webhooks, name, interrupted)

    def check(self) -> None:
        """Wait for the deletion, which must have been begun and must succeed."""
        assert self._done is not None
        self._done.result()
        self._pool.shutdown()
        with self._world.store.read() as tx:
            assert not webhooks.list_of(tx, self._webhook.project_id)

    def _begin(self) -> None:
        if self._done is None:
            at = (self._world.plane, self._webhook.project_id, self._webhook.id)
            done = self._done = self._pool.submit(delete_webhook, *at)
            eventually(lambda: done.done() or self._is_awaited(), "a deletion that waits")

    def _is_awaited(self) -> bool:
        with self._world.store.read() as tx:
            return tx.execute(_WAITING).rowcount > 0


@pytest.fixture
def webhook(world: World, receiver: Receiver) -> Webhook:
    return create_webhook(world.plane, world.tenant.project.id, receiver.url)


@pytest.fixture
def deletion(world: World, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> Deletion:
    return Deletion(world, webhook, monkeypatch)


def test_an_event_is_recorded_although_a_webhook_that_wants_it_is_deleted(world: World, deletion: Deletion) -> None:
    deletion.beside("add_delivery", before=True)
    with world.store.write() as tx:
        EventRecorder(world.clock).add(tx, world.tenant.project.id, EventType.QUOTA_REACHED, None, {})
    deletion.check()


def test_a_test_is_sent_although_its_webhook_is_deleted(world: World, webhook: Webhook, deletion: Deletion) -> None:
    deletion.beside("add_delivery", before=True)
    assert send_test(world.plane, webhook.project_id, webhook.id).attempts == 0
    deletion.check()


def test_a_delivery_that_failed_is_recorded_although_its_webhook_is_deleted(
    world: World, webhook: Webhook, receiver: Receiver, dispatcher: Dispatcher, deletion: Deletion
) -> None:
    receiver.status = 500
    send_test(world.plane, webhook.project_id, webhook.id)
    deletion.beside("record_attempt")
    assert dispatcher.deliver_due() == 1
    deletion.check()


def test_what_is_delivered_again_is_not_deleted_before_that_is_recorded(
    world: World, webhook: Webhook, deletion: Deletion
) -> None:
    made = send_test(world.plane, webhook.project_id, webhook.id)
    deletion.beside("try_again", before=True)
    assert redeliver(world.plane, webhook.project_id, webhook.id, made.id) == 1
    deletion.check()
