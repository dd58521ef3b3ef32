"""The client against a real server over HTTP."""

from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ramet.client import ApiError, Client, TimedOut, WaitFailed, polling
from ramet.client.http_connection import Answer
from ramet.client.life_spans import Keeping
from ramet.client.transport import HttpTransport
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.status import Status
from tests.answers import Answering
from tests.cli.world import World, open_world
from tests.test_client_operations import sample_arguments


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with world.client() as made:
        yield made


def test_a_service_lives_from_create_to_delete(client: Client) -> None:
    created = client.create_service("shop", cpu_millis="500", memory_gbs="2", environment=Environment.PROD)
    assert created.status == Status.QUEUED
    assert isinstance(created.initial_password, str)
    ready = client.wait_ready(created.service_id, 30)
    assert ready.resources[0].spec.cpu_millis == 500
    client.update_password(created.service_id, "a password as text")
    assert ready.service_id in [service.service_id for service in client.list_services()]
    client.stop_service(ready.service_id)
    assert client.wait_paused(ready.service_id, 30).paused
    client.start_service(ready.service_id)
    client.wait_ready(ready.service_id, 30)
    client.delete_service(ready.service_id)
    client.wait_deleted(ready.service_id, 30)
    with pytest.raises(ApiError) as caught:
        client.get_service(ready.service_id)
    assert (caught.value.status, caught.value.code) == (404, "SERVICE_NOT_FOUND")


def test_a_fork_is_made_of_its_parent(client: Client) -> None:
    parent = client.wait_ready(client.create_service("shop").service_id, 30)
    fork = client.fork_service(parent.service_id, ForkStrategy.NOW, name="trial")
    assert fork.forked_from is not None
    assert fork.forked_from.service_id == parent.service_id
    assert client.wait_ready(fork.service_id, 30).name == "trial"


def test_services_are_read_page_by_page(client: Client) -> None:
    made = {client.create_service(f"page-{n}", keeping=Keeping(labels={"page": "yes"})).service_id for n in range(3)}
    found = [one.service_id for one in client.iterate_services(["page=yes"], page_size=2)]
    assert (len(found), set(found)) == (3, made)
    assert [one.service_id for one in client.iterate_services()] == [one.service_id for one in client.list_services()]


def test_the_same_idempotency_key_gives_the_same_service(client: Client) -> None:
    first = client.create_service("once", idempotency_key="a-key")
    again = client.create_service("once", idempotency_key="a-key")
    assert (first.service_id, first.initial_password) == (again.service_id, again.initial_password)


def test_the_key_says_which_project_it_opens(world: World, client: Client) -> None:
    assert [project.id for project in client.list_projects()] == [world.project.id]
    assert client.auth_info().api_key.public_key == world.public_key


def test_a_refusal_carries_status_code_and_words_of_the_server(client: Client) -> None:
    with pytest.raises(ApiError) as caught:
        client.create_service("")
    assert (caught.value.status, caught.value.code) == (400, "INVALID_NAME")


@pytest.mark.parametrize("nothing", ["", ".", ".."])
def test_an_empty_identifier_is_refused(client: Client, nothing: str) -> None:
    with pytest.raises(Invalid, match="id must not be empty"):
        client.get_service(nothing)
    with pytest.raises(Invalid, match="id must not be empty"):
        client.list_operations(nothing)


def test_private_networks_are_empty_or_refused(client: Client) -> None:
    assert (client.list_vpcs(), client.list_peerings("1")) == ([], [])
    with pytest.raises(ApiError) as caught:
        client.create_vpc("office", "10.0.0.0/16", "local")
    assert caught.value.status == 400
    with pytest.raises(ApiError) as caught:
        client.get_vpc("1")
    assert caught.value.status == 404


def test_analytics_are_accepted(client: Client) -> None:
    client.logout()
    assert client.identify_user({"agent": "test"}).status == client.track_event("tested").status == "success"


def test_an_identifier_cannot_lead_to_another_address(client: Client) -> None:
    with pytest.raises(ApiError) as caught:
        client.get_service("../../projects")
    assert caught.value.status == 404


def test_a_wait_that_takes_too_long_says_where_the_service_is(tmp_path: Path) -> None:
    with open_world(tmp_path) as world, world.client() as client:
        world.runtime.worker.stop()
        created = client.create_service("slow")
        with pytest.raises(TimedOut, match="QUEUED"):
            client.wait_ready(created.service_id, 0.05)


def test_a_service_that_fails_ends_the_wait_with_its_reason(tmp_path: Path) -> None:
    with open_world(tmp_path) as world, world.client() as client:

        def fail(*_: object, **__: object) -> None:
            raise Failed("NO_LUCK", "The volume could not be made", "Try another.")

        world.backend.servers.initialize = fail  # type: ignore[method-assign]
        created = client.create_service("doomed")
        with pytest.raises(WaitFailed, match="could not be made"):
            client.wait_ready(created.service_id, 30)


def test_a_server_that_does_not_answer_is_named() -> None:
    with Client("http://127.0.0.1:9/public/api/v1", "p", "k", "s") as client, pytest.raises(Unavailable, match=":9"):
        client.list_services()


def test_an_answer_of_another_shape_is_an_error_and_no_crash() -> None:
    transport = Answering(lambda *_: Answer(200, b"<html>hello</html>"))
    with Client("http://elsewhere", "p", "k", "s", transport=transport) as client, pytest.raises(ApiError) as caught:
        client.list_services()
    assert caught.value.code == "UNKNOWN_ANSWER"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Answer(301, b"", {"location": "https://elsewhere/x"}),
            "redirects to https://elsewhere/x: correct RAMET_BASE_URL",
        ),
        (Answer(302, b"<html>", {"content-type": "text/html"}), "a page for browsers"),
        (Answer(200, b"<html>Sign in</html>"), "unexpected response"),
    ],
)
@pytest.mark.parametrize("verb", ["revoke_key", "delete_webhook", "delete_service", "logout", "list_services"])
def test_a_redirect_and_a_page_of_a_proxy_are_no_success(answer: Answer, said: str, verb: str) -> None:
    transport = Answering(lambda *_: answer)
    with Client("http://elsewhere", "p", "k", "s", transport=transport) as client:
        call = getattr(client, verb)
        with pytest.raises(ApiError, match=said) as caught:
            call(**sample_arguments(call))
    assert (caught.value.status, caught.value.code) == (answer.status, "UNKNOWN_ANSWER")


def test_what_is_done_needs_no_content() -> None:
    for answer in (Answer(204, b""), Answer(202, b""), Answer(200, b'{"message": "Done"}')):
        transport = Answering(lambda *_, answer=answer: answer)
        with Client("http://elsewhere", "p", "k", "s", transport=transport) as client:
            client.revoke_key("key")


def test_a_service_that_only_a_proxy_does_not_know_is_not_taken_for_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_TOLERATED_OUTAGE_SECONDS", -1.0)
    transport = Answering(lambda *_: Answer(404, b"404 page not found"))
    with Client("http://elsewhere", "p", "k", "s", transport=transport) as client, pytest.raises(ApiError) as caught:
        client.wait_deleted("a123456789")
    assert caught.value.code == "UNKNOWN_ANSWER"


@pytest.mark.parametrize(
    "failure", [Answer(503, b'{"code": "BUSY", "message": "Busy."}'), Answer(404, b"404 page not found")], ids=repr
)
def test_a_short_outage_while_waiting_is_lived_through(world: World, client: Client, failure: Answer) -> None:
    ready = client.wait_ready(client.create_service("steady").service_id, 30)
    taken = client.create_checkpoint(ready.service_id, "good")
    outage = [failure]

    def handle(*request: Any) -> Answer:
        if outage:
            return outage.pop()
        try:
            return network.request(*request)
        finally:
            outage.append(failure)

    with (
        closing(HttpTransport(world.base_url, 30)) as network,
        Client(world.base_url, world.project.id, world.public_key, world.secret, transport=Answering(handle)) as shaky,
    ):
        assert shaky.wait_ready(ready.service_id, 30).status == Status.READY
        assert shaky.wait_checkpoint(ready.service_id, taken.id, 30).name == "good"
        begun = client.restore_service(ready.service_id, snapshot="good")
        assert shaky.wait_restored(ready.service_id, begun.restore_id, 30).error is None


@pytest.mark.parametrize(("losses", "outcome"), [(1, nullcontext()), (2, pytest.raises((TimedOut, Unavailable)))])
@pytest.mark.parametrize("loss", [TimeoutError(), ConnectionResetError()], ids=repr)
def test_an_answer_that_does_not_come_ends_no_wait_but_a_second_one_does(
    client: Client, monkeypatch: pytest.MonkeyPatch, loss: Exception, losses: int, outcome: Any
) -> None:
    ready = client.wait_ready(client.create_service("stalled").service_id, 30)
    outcomes, now = [loss] * losses, 0.0

    def handle(*_: Any) -> Answer:
        nonlocal now
        if not outcomes:
            return Answer(200, msgspec.json.encode(ready))
        now += 30
        raise outcomes.pop()

    monkeypatch.setattr("ramet.client.polling.time", SimpleNamespace(monotonic=lambda: now, sleep=lambda _: None))
    with Client("http://elsewhere", "p", "k", "s", transport=Answering(handle)) as other, outcome:
        assert other.wait_ready(ready.service_id, 600).status == Status.READY


def test_a_wait_is_one_request_where_the_server_can_wait(world: World, client: Client) -> None:
    queued = client.create_service("patient")
    asked: list[str] = []

    def handle(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        asked.append(headers["Prefer"])
        return network.request(method, path, body, headers)

    with (
        closing(HttpTransport(world.base_url, 30)) as network,
        Client(world.base_url, world.project.id, world.public_key, world.secret, transport=Answering(handle)) as other,
    ):
        assert other.wait_ready(queued.service_id, 600).status == Status.READY
    assert [header.partition("=")[0] for header in asked] == ["wait"]


def test_a_server_that_cannot_wait_is_asked_again_after_a_pause(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = client.create_service("early")
    ready = msgspec.json.encode(client.wait_ready(queued.service_id, 30))
    answers, pauses = [msgspec.json.encode(queued)] * 3 + [ready], list[float]()
    monkeypatch.setattr("ramet.client.polling.time.sleep", pauses.append)
    transport = Answering(lambda *_: Answer(200, answers.pop(0)))
    with Client("http://elsewhere", "p", "k", "s", transport=transport) as other:
        assert other.wait_ready(queued.service_id, 30).status == Status.READY
    assert len(pauses) == 3
    assert min(pauses) > 0


def test_a_client_waits_no_longer_for_an_answer_than_for_any_other() -> None:
    with Client("http://elsewhere", "p", "k", "s", timeout_seconds=5.0) as client:
        assert client.longest_wait_seconds == 2
