"""Deliveries to webhooks: signed, repeated with growing pauses, and independent of each other."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from harness.waiting import BOUND_SECONDS, eventually
from ramet.errors import Unavailable
from ramet.events.dispatcher import PAUSES, Dispatcher
from ramet.events.sender import Response, Sender
from ramet.store import webhooks
from ramet.store.database import Store
from tests.api.world import World
from tests.events.conftest import Receiver
from tests.events.hooks import created, deliveries_of, webhook_path


def test_a_delivery_is_signed_as_the_specification_says(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    service = world.ready()
    assert dispatcher.deliver_due() == 1
    ((path, headers, body),) = receiver.arrived
    assert path == "/hook"
    assert headers["content-type"] == "application/json"
    assert Webhook(webhook["secret"]).verify(body, headers)["data"]["service_id"] == service["service_id"]
    assert json.loads(body).keys() == {"type", "timestamp", "data"}
    with pytest.raises(WebhookVerificationError):
        Webhook(webhook["secret"]).verify(body + b" ", headers)
    (delivery,) = deliveries_of(world, webhook)
    assert (delivery["status"], delivery["attempts"], delivery["id"]) == ("DELIVERED", 1, headers["webhook-id"])
    assert dispatcher.deliver_due() == 0


def test_only_wanted_types_are_delivered_and_a_test_always_is(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver, types=["service.deleted"], description="deletions")
    service = world.ready()
    world.delete(world.path(service["service_id"]))
    world.work()
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert [json.loads(body)["type"] for _, _, body in receiver.arrived] == ["service.deleted", "webhook.test"]


def test_a_failed_delivery_is_repeated_with_growing_pauses_and_listed_when_it_is_given_up(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    receiver.status = 500
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    for pause in PAUSES:
        world.advance(timedelta(seconds=pause - 3))
        assert dispatcher.deliver_due() == 0
        world.advance(timedelta(seconds=3))
        assert dispatcher.deliver_due() == 1
    assert len(receiver.arrived) == len(PAUSES) + 1
    assert len({headers["webhook-id"] for _, headers, _ in receiver.arrived}) == 1
    (delivery,) = deliveries_of(world, webhook, "?status=FAILED")
    assert (delivery["error"], delivery["response_status"]) == ("The target answered 500.", 500)
    receiver.status = 200
    assert world.post(webhook_path(world, webhook["id"], "redeliver"), {}).json() == {"count": 1}
    dispatcher.deliver_due()
    assert deliveries_of(world, webhook)[0]["status"] == "DELIVERED"
    assert "failing_since" not in world.get(webhook_path(world, webhook["id"])).json()


def test_redirects_are_not_followed(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    webhook = created(world, receiver)
    receiver.status, receiver.headers = 302, {"location": receiver.url}
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.deliver_due()
    assert len(receiver.arrived) == 1
    assert "redirects are not followed" in deliveries_of(world, webhook)[0]["error"]


def test_two_processes_deliver_each_event_once_and_a_lost_one_is_made_again(
    world: World, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    webhook = created(world, receiver)
    for _ in range(4):
        world.post(webhook_path(world, webhook["id"], "test"))
    others = [threading.Thread(target=dispatcher.deliver_due) for _ in range(2)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert len(receiver.arrived) == len({headers["webhook-id"] for _, headers, _ in receiver.arrived}) == 4
    world.post(webhook_path(world, webhook["id"], "test"))
    with world.store.write() as tx:
        due = webhooks.list_due(tx, world.clock(), 8, 2)
        assert len(webhooks.lease(tx, due, world.clock())) == 1  # by a process that dies then
    assert dispatcher.deliver_due() == 0
    world.advance(webhooks.LEASE + timedelta(seconds=1))
    assert dispatcher.deliver_due() == 1


def test_a_running_dispatcher_delivers_what_happens(world: World, receiver: Receiver, dispatcher: Dispatcher) -> None:
    created(world, receiver)
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
    webhook = created(world, receiver)
    world.post(webhook_path(world, webhook["id"], "test"))
    dispatcher.start()
    try:
        eventually(lambda: begun != [])
        dispatcher.stop()
        assert "webhooks" not in [one.name for one in threading.enumerate()]
        assert [one.daemon for one in begun] == [True]
    finally:
        may_answer.set()
        begun[0].join(BOUND_SECONDS)
    assert deliveries_of(world, webhook)[0]["status"] == "DELIVERED"


@pytest.mark.parametrize("is_store_away", [False, True])
def test_an_attempt_whose_thread_cannot_be_started_is_made_again_and_delays_no_other(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, is_store_away: bool
) -> None:
    first, second = (created(world, receiver, url=f"{receiver.url}/{name}") for name in ("first", "second"))
    for webhook in (first, second):
        world.post(webhook_path(world, webhook["id"], "test"))
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
    eventually(lambda: deliveries_of(world, second)[0]["status"] == "DELIVERED")
    assert deliveries_of(world, first)[0]["status"] == "PENDING"
    if is_store_away:
        world.advance(webhooks.LEASE)
    assert dispatcher.deliver_due() == 1
    assert [path for path, _, _ in receiver.arrived] == ["/hook/second", "/hook/first"]


def test_attempts_whose_thread_cannot_be_started_are_not_counted_and_keep_the_order(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = created(world, receiver)
    receiver.status = 500
    for _ in range(2):
        world.post(webhook_path(world, webhook["id"], "test"))
        world.advance(timedelta(seconds=1))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(len(PAUSES) + 1):
            dispatcher._begin_due()
            world.advance(webhooks.LEASE)
    assert dispatcher.deliver_due() == 2
    later, earlier = deliveries_of(world, webhook)
    assert [headers["webhook-id"] for _, headers, _ in receiver.arrived] == [earlier["id"], later["id"]]
    assert [(each["status"], each["attempts"]) for each in (earlier, later)] == [("PENDING", 1)] * 2


def test_a_delivery_whose_thread_cannot_be_started_may_be_redelivered_at_that_moment(
    world: World, receiver: Receiver, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = created(world, receiver)
    world.post(webhook_path(world, webhook["id"], "test"))
    (delivery,) = deliveries_of(world, webhook)

    def refuse(_: threading.Thread) -> None:
        with world.store.write() as tx:
            assert webhooks.try_again(tx, webhook["id"], world.clock(), delivery["id"]) == 1
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        dispatcher._begin_due()
    assert deliveries_of(world, webhook)[0]["attempts"] == 0
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
        created(world, receiver, url=f"{receiver.url}/slow")
    world.ready()
    created(other, receiver, url=f"{receiver.url}/quick")
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
