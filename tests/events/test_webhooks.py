"""Webhooks: what a request says, their secrets, and when they are disabled."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ramet.events.dispatcher import Dispatcher
from ramet.model.timestamps import parse_timestamp
from ramet.store import webhooks
from tests.api.world import World
from tests.audited import entries_of
from tests.events.conftest import Receiver
from tests.events.hooks import created, deliveries_of, updated, webhook_path


def test_a_webhook_that_fails_for_long_is_disabled_with_a_reason_until_it_is_enabled(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    receiver.status = 503
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    world.advance(timedelta(days=6))
    dispatcher.deliver_due()
    shown = world.get(webhook_path(world, webhook["id"])).json()
    assert shown["enabled"] is False
    assert "No delivery has succeeded since" in shown["disabled_reason"]
    assert deliveries_of(world, webhook)[0]["status"] == "FAILED"
    world.ready()
    assert len(deliveries_of(world, webhook)) == 1
    receiver.status = 200
    assert "disabled_reason" not in updated(world, webhook, enabled=True)
    world.ready()
    assert dispatcher.deliver_due() == 1


def test_nothing_is_promised_for_a_webhook_that_is_disabled(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    (delivery,) = deliveries_of(world, webhook)
    updated(world, webhook, enabled=False)
    for verb, body in (("test", None), ("redeliver", {}), ("redeliver", {"delivery_id": delivery["id"]})):
        answer = world.post(webhook_path(world, webhook["id"], verb), body)
        assert (answer.status_code, answer.json()["code"]) == (400, "WEBHOOK_DISABLED")
        assert "It was disabled by request" in answer.text
    assert deliveries_of(world, webhook) == [delivery]
    updated(world, webhook, enabled=True)
    assert world.post(webhook_path(world, webhook["id"], "redeliver"), {"delivery_id": delivery["id"]}).json() == {
        "count": 1
    }


def test_a_target_that_is_gone_gets_nothing_more(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    webhook = created(world, receiver)
    receiver.status = 410
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert "410" in world.get(webhook_path(world, webhook["id"])).json()["disabled_reason"]


def test_both_secrets_sign_while_one_replaces_the_other(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    rotated = world.post(webhook_path(world, webhook["id"], "rotateSecret"), {"overlap_seconds": 60}).json()
    assert rotated["secret"] != webhook["secret"]
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    _, headers, body = receiver.arrived[-1]
    for secret in (webhook["secret"], rotated["secret"]):
        Webhook(secret).verify(body, headers)
    world.advance(timedelta(seconds=61))
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert len(receiver.arrived[-1][1]["webhook-signature"].split()) == 1


def test_a_rotation_that_is_repeated_with_its_key_makes_one_secret(world: World, receiver: Receiver) -> None:
    webhook = created(world, receiver)
    path, first = webhook_path(world, webhook["id"], "rotateSecret"), {"Idempotency-Key": "first"}
    one, again = (world.post(path, {"overlap_seconds": 60}, headers=first).json() for _ in range(2))
    assert one == again
    other = world.post(path, {"overlap_seconds": 60}, headers={"Idempotency-Key": "second"}).json()
    assert len({webhook["secret"], one["secret"], other["secret"]}) == 3


def test_a_repeated_rotation_ends_the_overlap_at_the_earlier_time(world: World, receiver: Receiver) -> None:
    webhook = created(world, receiver)
    path, key = webhook_path(world, webhook["id"], "rotateSecret"), {"Idempotency-Key": "first"}
    one, longer, none = (world.post(path, {"overlap_seconds": each}, headers=key).json() for each in (60, 90, 0))
    assert one == longer
    assert none["secret"] == one["secret"]
    assert parse_timestamp("until", none["previous_secret_until"]) <= world.clock()


def test_secrets_are_shown_once_sealed_in_the_store_and_not_in_the_audit(world: World, receiver: Receiver) -> None:
    webhook = created(world, receiver)
    assert "secret" not in world.get(webhook_path(world, webhook["id"])).json()
    assert "secret" not in world.get(webhook_path(world)).json()[0]
    with world.store.read() as tx:
        (row,) = webhooks.list_of(tx, world.tenant.project.id)
    assert webhook["secret"] not in repr(row)
    assert webhook["secret"].removeprefix("whsec_") not in repr(row)
    (entry,) = entries_of(world.store, verb="createWebhook")
    assert (entry.subject, entry.fields["url"]) == (webhook["id"], f"http://127.0.0.1:{receiver.port}")


def test_what_is_wrong_with_a_request_is_said(world: World, receiver: Receiver) -> None:
    webhook = created(world, receiver)
    for body, code in (
        ({"url": "ftp://example.com"}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://user:pw@example.com"}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://"}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://example.com:65536/"}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://example.com:0/"}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://example.com/" + "x" * 2000}, "INVALID_WEBHOOK_URL"),
        ({"url": "https://example.com/#part"}, "INVALID_WEBHOOK_URL"),
        ({"url": receiver.url, "types": ["nonsense"]}, "INVALID_FIELD"),
        ({"url": receiver.url, "description": "x" * 201}, "INVALID_FIELD"),
        ({"url": receiver.url, "secret": "whsec_x"}, "UNKNOWN_FIELD"),
    ):
        answer = world.post(webhook_path(world), body)
        assert (answer.status_code, answer.json()["code"]) == (400, code), body
    changed = world.client.put(webhook_path(world, webhook["id"]), json={"url": ""}, auth=world.tenant.credentials)
    assert (changed.status_code, changed.json()["code"]) == (400, "INVALID_WEBHOOK_URL")
    assert world.get(webhook_path(world, "a123456789")).json()["code"] == "WEBHOOK_NOT_FOUND"
    assert world.post(webhook_path(world, webhook["id"], "redeliver"), {"delivery_id": "x"}).status_code == 404
    assert world.post(webhook_path(world, webhook["id"], "rotateSecret"), {"overlap_seconds": -1}).status_code == 400
    other = world.new_tenant("other")
    theirs = webhook_path(world, webhook["id"]).replace(world.tenant.project.id, other.project.id)
    assert world.client.delete(theirs, auth=other.credentials).status_code == 404
    assert world.delete(webhook_path(world, webhook["id"])).status_code == 204
    assert world.get(webhook_path(world)).json() == []


def test_a_project_has_only_so_many_webhooks(world: World, receiver: Receiver) -> None:
    for _ in range(20):
        created(world, receiver)
    assert world.post(webhook_path(world), {"url": receiver.url}).json()["code"] == "TOO_MANY_WEBHOOKS"


def test_the_examples_of_the_page_check_a_signature(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    webhook = created(world, receiver)
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    ((_, headers, body),) = receiver.arrived
    assert len(examples) == 2
    for example in examples:
        names: dict[str, Any] = {}
        exec(example, names)  # noqa: S102 - what the page shows must run
        assert names["receive"](webhook["secret"], headers, body)["type"] == "webhook.test"
        with pytest.raises((ValueError, WebhookVerificationError)):
            names["receive"](webhook["secret"], headers, body + b" ")
