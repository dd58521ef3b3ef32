"""Webhooks: signed deliveries, retries, rotation, and an end to what fails for long."""

import json
import re
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from harness.waiting import BOUND_SECONDS, eventually
from ramet.endpoints import BASE_PATH
from ramet.errors import Unavailable
from ramet.events.dispatcher import PAUSES, Dispatcher
from ramet.events.sender import Response, Sender
from ramet.model.timestamps import parse_timestamp
from ramet.store import webhooks
from ramet.store.database import Store
from tests.api.world import World
from tests.audited import entries_of
from tests.events.conftest import Receiver


def _path(world: World, *parts: str) -> str:
    return "/".join((f"{BASE_PATH}/projects/{world.tenant.project.id}/webhooks", *parts))


def _created(world: World, receiver: Receiver, **fields: object) -> dict[str, Any]:
    answer = world.post(_path(world), {"url": receiver.url, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def _deliveries(world: World, webhook: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    return list(world.get(_path(world, webhook["id"], f"deliveries{query}")).json()["deliveries"])


def _put(world: World, webhook: dict[str, Any], **fields: object) -> dict[str, Any]:
    answer = world.client.put(_path(world, webhook["id"]), auth=world.tenant.credentials, json=fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_delivery_is_signed_as_the_specification_says(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    service = world.ready()
    assert dispatcher.deliver_due() == 1
    ((path, headers, body),) = receiver.arrived
    assert path == "/hook"
    assert headers["content-type"] == "application/json"
    assert Webhook(webhook["secret"]).verify(body, headers)["data"]["service_id"] == service["service_id"]
    assert json.loads(body).keys() == {"type", "timestamp", "data"}
    with pytest.raises(WebhookVerificationError):
        Webhook(webhook["secret"]).verify(body + b" ", headers)
    (delivery,) = _deliveries(world, webhook)
    assert (delivery["status"], delivery["attempts"], delivery["id"]) == ("DELIVERED", 1, headers["webhook-id"])
    assert dispatcher.deliver_due() == 0


def test_only_wanted_types_are_delivered_and_a_test_always_is(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver, types=["service.deleted"], description="deletions")
    service = world.ready()
    world.delete(world.path(service["service_id"]))
    world.work()
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert [json.loads(body)["type"] for _, _, body in receiver.arrived] == ["service.deleted", "webhook.test"]


def test_a_failed_delivery_is_repeated_with_growing_pauses_and_listed_when_it_is_given_up(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    receiver.status = 500
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    for pause in PAUSES:
        world.advance(timedelta(seconds=pause - 3))
        assert dispatcher.deliver_due() == 0
        world.advance(timedelta(seconds=3))
        assert dispatcher.deliver_due() == 1
    assert len(receiver.arrived) == len(PAUSES) + 1
    assert len({headers["webhook-id"] for _, headers, _ in receiver.arrived}) == 1
    (delivery,) = _deliveries(world, webhook, "?status=FAILED")
    assert (delivery["error"], delivery["response_status"]) == ("The target answered 500.", 500)
    receiver.status = 200
    assert world.post(_path(world, webhook["id"], "redeliver"), {}).json() == {"count": 1}
    dispatcher.deliver_due()
    assert _deliveries(world, webhook)[0]["status"] == "DELIVERED"
    assert "failing_since" not in world.get(_path(world, webhook["id"])).json()


def test_a_webhook_that_fails_for_long_is_disabled_with_a_reason_until_it_is_enabled(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    receiver.status = 503
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    world.advance(timedelta(days=6))
    dispatcher.deliver_due()
    shown = world.get(_path(world, webhook["id"])).json()
    assert shown["enabled"] is False
    assert "No delivery has succeeded since" in shown["disabled_reason"]
    assert _deliveries(world, webhook)[0]["status"] == "FAILED"
    world.ready()
    assert len(_deliveries(world, webhook)) == 1
    receiver.status = 200
    assert "disabled_reason" not in _put(world, webhook, enabled=True)
    world.ready()
    assert dispatcher.deliver_due() == 1


def test_nothing_is_promised_for_a_webhook_that_is_disabled(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    (delivery,) = _deliveries(world, webhook)
    _put(world, webhook, enabled=False)
    for verb, body in (("test", None), ("redeliver", {}), ("redeliver", {"delivery_id": delivery["id"]})):
        answer = world.post(_path(world, webhook["id"], verb), body)
        assert (answer.status_code, answer.json()["code"]) == (400, "WEBHOOK_DISABLED")
        assert "It was disabled by request" in answer.text
    assert _deliveries(world, webhook) == [delivery]
    _put(world, webhook, enabled=True)
    assert world.post(_path(world, webhook["id"], "redeliver"), {"delivery_id": delivery["id"]}).json() == {"count": 1}


def test_a_target_that_is_gone_gets_nothing_more(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    webhook = _created(world, receiver)
    receiver.status = 410
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert "410" in world.get(_path(world, webhook["id"])).json()["disabled_reason"]


def test_redirects_are_not_followed(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    webhook = _created(world, receiver)
    receiver.status, receiver.headers = 302, {"location": receiver.url}
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert len(receiver.arrived) == 1
    assert "redirects are not followed" in _deliveries(world, webhook)[0]["error"]


def test_both_secrets_sign_while_one_replaces_the_other(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    rotated = world.post(_path(world, webhook["id"], "rotateSecret"), {"overlap_seconds": 60}).json()
    assert rotated["secret"] != webhook["secret"]
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    _, headers, body = receiver.arrived[-1]
    for secret in (webhook["secret"], rotated["secret"]):
        Webhook(secret).verify(body, headers)
    world.advance(timedelta(seconds=61))
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert len(receiver.arrived[-1][1]["webhook-signature"].split()) == 1


def test_a_rotation_that_is_repeated_with_its_key_makes_one_secret(world: World, receiver: Receiver) -> None:
    webhook = _created(world, receiver)
    path, first = _path(world, webhook["id"], "rotateSecret"), {"Idempotency-Key": "first"}
    one, again = (world.post(path, {"overlap_seconds": 60}, headers=first).json() for _ in range(2))
    assert one == again
    other = world.post(path, {"overlap_seconds": 60}, headers={"Idempotency-Key": "second"}).json()
    assert len({webhook["secret"], one["secret"], other["secret"]}) == 3


def test_a_repeated_rotation_ends_the_overlap_at_the_earlier_time(world: World, receiver: Receiver) -> None:
    webhook = _created(world, receiver)
    path, key = _path(world, webhook["id"], "rotateSecret"), {"Idempotency-Key": "first"}
    one, longer, none = (world.post(path, {"overlap_seconds": each}, headers=key).json() for each in (60, 90, 0))
    assert one == longer
    assert none["secret"] == one["secret"]
    assert parse_timestamp("until", none["previous_secret_until"]) <= world.clock()


def test_secrets_are_shown_once_sealed_in_the_store_and_not_in_the_audit(world: World, receiver: Receiver) -> None:
    webhook = _created(world, receiver)
    assert "secret" not in world.get(_path(world, webhook["id"])).json()
    assert "secret" not in world.get(_path(world)).json()[0]
    with world.store.read() as tx:
        (row,) = webhooks.list_of(tx, world.tenant.project.id)
    assert webhook["secret"] not in repr(row)
    assert webhook["secret"].removeprefix("whsec_") not in repr(row)
    (entry,) = entries_of(world.store, verb="createWebhook")
    assert (entry.subject, entry.fields["url"]) == (webhook["id"], f"http://127.0.0.1:{receiver.port}")


def test_two_processes_deliver_each_event_once_and_a_lost_one_is_made_again(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = _created(world, receiver)
    for _ in range(4):
        world.post(_path(world, webhook["id"], "test"))
    others = [threading.Thread(target=dispatcher.deliver_due) for _ in range(2)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert len(receiver.arrived) == len({headers["webhook-id"] for _, headers, _ in receiver.arrived}) == 4
    world.post(_path(world, webhook["id"], "test"))
    with world.store.write() as tx:
        due = webhooks.list_due(tx, world.clock(), 8, 2)
        assert len(webhooks.lease(tx, due, world.clock())) == 1  # by a process that dies then
    assert dispatcher.deliver_due() == 0
    world.advance(webhooks.LEASE + timedelta(seconds=1))
    assert dispatcher.deliver_due() == 1


def test_a_running_dispatcher_delivers_what_happens(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    _created(world, receiver)
    dispatcher.start()
    world.ready()
    dispatcher.wake()
    eventually(lambda: len(receiver.arrived) == 1)
    dispatcher.stop()


def test_the_end_of_a_process_waits_for_no_target(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    may_answer, begun = threading.Event(), list[threading.Thread]()

    def stall(url: str, headers: dict[str, str], body: bytes) -> Response:
        begun.append(threading.current_thread())
        assert may_answer.wait(BOUND_SECONDS)
        return Response(200, None)

    dispatcher.sender = cast("Sender", SimpleNamespace(send=stall))
    webhook = _created(world, receiver)
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.start()
    try:
        eventually(lambda: begun != [])
        dispatcher.stop()
        assert "webhooks" not in [one.name for one in threading.enumerate()]
        assert [one.daemon for one in begun] == [True]
    finally:
        may_answer.set()
        begun[0].join(BOUND_SECONDS)
    assert _deliveries(world, webhook)[0]["status"] == "DELIVERED"


@pytest.mark.parametrize("is_store_away", [False, True])
def test_an_attempt_whose_thread_cannot_be_started_is_made_again_and_delays_no_other(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, is_store_away: bool
) -> None:
    first, second = (_created(world, receiver, url=f"{receiver.url}/{name}") for name in ("first", "second"))
    for webhook in (first, second):
        world.post(_path(world, webhook["id"], "test"))
    start, write = threading.Thread.start, Store.write

    def away(*_: object, **__: object) -> None:
        monkeypatch.setattr(Store, "write", write)
        raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")

    def start_others(thread: threading.Thread) -> None:
        if thread.name == f"webhook-{first['id']}":
            monkeypatch.setattr(Store, "write", away if is_store_away else write)
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_others)
        dispatcher._begin_due()
    eventually(lambda: _deliveries(world, second)[0]["status"] == "DELIVERED")
    assert _deliveries(world, first)[0]["status"] == "PENDING"
    if is_store_away:
        world.advance(webhooks.LEASE)
    assert dispatcher.deliver_due() == 1
    assert [path for path, _, _ in receiver.arrived] == ["/hook/second", "/hook/first"]


def test_attempts_whose_thread_cannot_be_started_are_not_counted_and_keep_the_order(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = _created(world, receiver)
    receiver.status = 500
    for _ in range(2):
        world.post(_path(world, webhook["id"], "test"))
        world.advance(timedelta(seconds=1))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(len(PAUSES) + 1):
            dispatcher._begin_due()
            world.advance(webhooks.LEASE)
    assert dispatcher.deliver_due() == 2
    later, earlier = _deliveries(world, webhook)
    assert [headers["webhook-id"] for _, headers, _ in receiver.arrived] == [earlier["id"], later["id"]]
    assert [(each["status"], each["attempts"]) for each in (earlier, later)] == [("PENDING", 1)] * 2


def test_a_delivery_whose_thread_cannot_be_started_may_be_redelivered_at_that_moment(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = _created(world, receiver)
    world.post(_path(world, webhook["id"], "test"))
    (delivery,) = _deliveries(world, webhook)

    def refuse(_: threading.Thread) -> None:
        with world.store.write() as tx:
            assert webhooks.try_again(tx, webhook["id"], world.clock(), delivery["id"]) == 1
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        dispatcher._begin_due()
    assert _deliveries(world, webhook)[0]["attempts"] == 0
    assert dispatcher.deliver_due() == 1


def test_a_project_whose_targets_are_slow_delays_no_other_one(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer, send, begun = threading.Event(), dispatcher.sender.send, list[str]()

    def slow(url: str, headers: dict[str, str], body: bytes) -> Response:
        begun.append(url)
        if url.endswith("slow"):
            assert may_answer.wait(BOUND_SECONDS)
        return send(url, headers, body)

    dispatcher.sender = cast("Sender", SimpleNamespace(send=slow))
    other = replace(world, tenant=world.new_tenant("other"))
    for _ in range(9):
        _created(world, receiver, url=f"{receiver.url}/slow")
    world.ready()
    _created(other, receiver, url=f"{receiver.url}/quick")
    other.ready()
    dispatcher.start()
    try:
        eventually(lambda: [path for path, _, _ in receiver.arrived] == ["/hook/quick"])
        eventually(lambda: begun.count(f"{receiver.url}/slow") == 2)
        may_answer.set()
        eventually(lambda: len(receiver.arrived) == 10)
    finally:
        may_answer.set()
        dispatcher.stop()


def test_what_is_wrong_with_a_request_is_said(world: World, receiver: Receiver) -> None:
    webhook = _created(world, receiver)
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
        answer = world.post(_path(world), body)
        assert (answer.status_code, answer.json()["code"]) == (400, code), body
    changed = world.client.put(_path(world, webhook["id"]), json={"url": ""}, auth=world.tenant.credentials)
    assert (changed.status_code, changed.json()["code"]) == (400, "INVALID_WEBHOOK_URL")
    assert world.get(_path(world, "a123456789")).json()["code"] == "WEBHOOK_NOT_FOUND"
    assert world.post(_path(world, webhook["id"], "redeliver"), {"delivery_id": "x"}).status_code == 404
    assert world.post(_path(world, webhook["id"], "rotateSecret"), {"overlap_seconds": -1}).status_code == 400
    other = world.new_tenant("other")
    theirs = _path(world, webhook["id"]).replace(world.tenant.project.id, other.project.id)
    assert world.client.delete(theirs, auth=other.credentials).status_code == 404
    assert world.delete(_path(world, webhook["id"])).status_code == 204
    assert world.get(_path(world)).json() == []


def test_a_project_has_only_so_many_webhooks(world: World, receiver: Receiver) -> None:
    for _ in range(20):
        _created(world, receiver)
    assert world.post(_path(world), {"url": receiver.url}).json()["code"] == "TOO_MANY_WEBHOOKS"


def test_the_examples_of_the_page_check_a_signature(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    webhook = _created(world, receiver)
    world.post(_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    ((_, headers, body),) = receiver.arrived
    assert len(examples) == 2
    for example in examples:
        names: dict[str, Any] = {}
        exec(example, names)  # noqa: S102 - what the page shows must run
        assert names["receive"](webhook["secret"], headers, body)["type"] == "webhook.test"
        with pytest.raises((ValueError, WebhookVerificationError)):
            names["receive"](webhook["secret"], headers, body + b" ")
