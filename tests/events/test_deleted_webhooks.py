"""A webhook that is deleted while something is recorded for it: on PostgreSQL, where transactions run side by side."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.events.dispatcher import Dispatcher
from ramet.events.recorder import EventRecorder
from ramet.events.webhooks import create_webhook, delete_webhook, list_webhooks, redeliver, send_test
from ramet.model.events import EventType, Webhook
from ramet.store import webhooks
from tests.api.world import World, open_world
from tests.beside import Beside
from tests.events.conftest import Receiver

pytestmark = pytest.mark.servers


@pytest.fixture
def world(tmp_path: Path, postgresql_url: str) -> Iterator[World]:
    for made in open_world(tmp_path, postgresql_url):
        made.store.recorders.insert(0, EventRecorder(made.clock).record)
        yield made


@pytest.fixture
def webhook(world: World, receiver: Receiver) -> Webhook:
    return create_webhook(world.plane, world.tenant.project.id, receiver.url)


@pytest.fixture
def deletion(world: World, webhook: Webhook) -> Iterator[Beside]:
    made = Beside(world.store, lambda: delete_webhook(world.plane, webhook.project_id, webhook.id))
    yield made
    made.result()
    assert list_webhooks(world.plane, webhook.project_id) == []


def test_an_event_is_recorded_although_a_webhook_that_wants_it_is_deleted(
    world: World, deletion: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    deletion.begin_before(monkeypatch, webhooks, "add_delivery")
    with world.store.write() as tx:
        EventRecorder(world.clock).add(tx, world.tenant.project.id, EventType.QUOTA_REACHED, None, {})


def test_a_test_is_sent_although_its_webhook_is_deleted(
    world: World, webhook: Webhook, deletion: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    deletion.begin_before(monkeypatch, webhooks, "add_delivery")
    assert send_test(world.plane, webhook.project_id, webhook.id).attempts == 0


def test_a_delivery_that_failed_is_recorded_although_its_webhook_is_deleted(
    world: World,
    webhook: Webhook,
    receiver: Receiver,
    dispatcher: Dispatcher,
    deletion: Beside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receiver.status = 500
    send_test(world.plane, webhook.project_id, webhook.id)
    deletion.begin_after(monkeypatch, webhooks, "record_attempt")
    assert dispatcher.deliver_due() == 1


def test_what_is_delivered_again_is_not_deleted_before_that_is_recorded(
    world: World, webhook: Webhook, deletion: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = send_test(world.plane, webhook.project_id, webhook.id)
    deletion.begin_before(monkeypatch, webhooks, "try_again")
    assert redeliver(world.plane, webhook.project_id, webhook.id, made.id) == 1
