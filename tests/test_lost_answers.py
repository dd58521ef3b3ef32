"""Requests whose answers are lost: the client repeats those that must not be carried out twice."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from ramet.api.schemas.services import Service
from ramet.client import ApiError, Client, ForkStrategy, TimedOut, connection
from ramet.client.http_connection import Answer, BadAnswer
from ramet.client.transport import HttpTransport
from ramet.errors import Error, Unavailable
from ramet.model.passwords import Secret, is_password_of
from ramet.model.rights import Role
from ramet.store import services
from tests.answers import Answering
from tests.cli.world import World, open_world
from tests.test_client_operations import sample_arguments

MAKING = ("create_service", "fork_service", "fork_services", "import_service", "follow_database")
REPLACING = ("restore_service", "reset_service", "rewind_service", "upgrade_service")
ROTATING = ("rotate_key", "rotate_webhook_secret")
REFUSAL = Answer(400, b'{"code": "INVALID_NAME", "message": "No"}')
UNKNOWN = Answer(400, b'{"code": "UNKNOWN_PARAMETER", "message": "No"}')
UNAUTHORIZED = Answer(401, b'{"code": "UNAUTHORIZED", "message": "No"}')
BUSY = Answer(503, b'{"code": "BUSY", "message": "No"}')
BAD_GATEWAY = Answer(502, b"Bad Gateway")
NO_BACKEND = Answer(404, b"404 page not found")
Outcome = Answer | Exception
Sent = list[tuple[str | None, bytes | None]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as made:
        yield made


def came_to(outcome: Outcome) -> Answer:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@pytest.mark.parametrize("loss", [TimeoutError(), ConnectionResetError(), BadAnswer(), BAD_GATEWAY], ids=repr)
def test_a_service_whose_answer_was_lost_is_made_once_and_its_password_is_known(world: World, loss: Outcome) -> None:
    losses = list[Outcome]()
    with losing(world, losses) as client:
        before = {one.service_id for one in client.list_services()}
        losses.append(loss)
        parent = client.create_service("lost")
        client.wait_ready(parent.service_id)
        losses.append(loss)
        fork = client.fork_service(parent.service_id, ForkStrategy.NOW)
        after = {one.service_id for one in client.list_services()}
    assert after - before == {parent.service_id, fork.service_id}
    assert all(opens(world, one) for one in (parent, fork))


def test_a_service_whose_answers_were_lost_is_reset_once_and_rewound_once(world: World) -> None:
    losses = list[Outcome]()
    with losing(world, losses) as client:
        parent = client.wait_ready(client.create_service("lost").service_id)
        fork = client.wait_ready(client.fork_service(parent.service_id, ForkStrategy.NOW).service_id).service_id
        losses.append(TimeoutError())
        client.wait_restored(fork, client.reset_service(fork).restore_id)
        client.wait_checkpoint(fork, client.create_checkpoint(fork, "kept").id)
        losses.append(ConnectionResetError())
        client.rewind_service(fork, "kept")
        assert [one.verb for one in client.list_restores(fork).restores] == ["rewind", "reset"]


@contextmanager
def losing(world: World, losses: list[Outcome]) -> Iterator[Client]:
    """Yield a client whose requests are carried out, and whose answers are replaced by the losses, one each."""

    def lose_one(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        answer = network.request(method, path, body, headers)
        return came_to(losses.pop()) if losses else answer

    keys = (world.project.id, world.public_key, world.secret)
    with (
        closing(HttpTransport(world.base_url, 30)) as network,
        Client(world.base_url, *keys, transport=Answering(lose_one)) as client,
    ):
        yield client


def opens(world: World, made: Service) -> bool:
    """Tell whether the password in an answer is that of the service."""
    with world.runtime.store.read() as tx:
        stored = services.get_service(tx, made.service_id)
    assert stored is not None
    return isinstance(made.initial_password, str) and is_password_of(Secret(made.initial_password), stored.verifier)


def requested(
    method: str, outcomes: list[Outcome], error: type[Error], match: str | None = None, **more: object
) -> Sent:
    """Call a method whose requests have these outcomes, which raises; return the key and the body of each request."""
    sent: Sent = []

    def answer(_method: str, _path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        sent.append((headers.get("Idempotency-Key"), body))
        return came_to(outcomes[len(sent) - 1])

    with Client("http://elsewhere", "p", "k", "s", transport=Answering(answer)) as client:
        verb: Callable[..., object] = getattr(client, method)
        with pytest.raises(error, match=match):
            verb(**sample_arguments(verb), **more)
    assert len(sent) == len(outcomes)
    return sent


@pytest.mark.parametrize("method", [*MAKING, *REPLACING, *ROTATING])
def test_the_repetition_is_the_same_request_with_the_same_key(method: str) -> None:
    first, second = requested(method, [ConnectionResetError(), REFUSAL], ApiError)
    assert first == second
    assert first[0] is not None
    assert requested(method, [REFUSAL], ApiError)[0][0] not in (None, first[0])


def test_a_request_is_repeated_until_the_server_is_back() -> None:
    outcomes: list[Outcome] = [BAD_GATEWAY, NO_BACKEND, ConnectionRefusedError(), BUSY, REFUSAL]
    assert len(set(requested("create_service", outcomes, ApiError))) == 1


@pytest.mark.parametrize(
    ("outcome", "error"), [(REFUSAL, ApiError), (BUSY, ApiError), (ConnectionRefusedError(), Unavailable)], ids=repr
)
def test_a_request_that_is_refused_or_reaches_nobody_is_not_repeated(outcome: Outcome, error: type[Error]) -> None:
    assert len(requested("create_service", [outcome], error)) == 1


@pytest.mark.parametrize("key", ["mine", ""])
def test_a_request_with_a_key_of_the_caller_is_repeated_by_the_caller(key: str) -> None:
    assert requested("create_service", [TimeoutError()], TimedOut, idempotency_key=key)[0][0] == key


@pytest.mark.parametrize("second", [TimeoutError(), ConnectionRefusedError(), NO_BACKEND], ids=repr)
def test_what_may_have_been_made_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch, second: Outcome) -> None:
    monkeypatch.setattr(connection, "_REPEATED_WITHIN_SECONDS", 0.0)
    requested("create_service", [TimeoutError(), second], TimedOut, match="may have been accepted")
    requested("reset_service", [TimeoutError(), second], TimedOut, match="'ramet service restores a123456789'")
    requested("upgrade_service", [TimeoutError(), second], TimedOut, match="'ramet service upgrades a123456789'")
    requested("rotate_key", [TimeoutError(), second], TimedOut, match="previous_secret_until")


@pytest.mark.parametrize(("loss", "error"), [(TimeoutError(), TimedOut), (ConnectionResetError(), Unavailable)])
def test_a_request_that_may_have_taken_effect_is_not_to_be_sent_again_unseen(
    loss: Exception, error: type[Error]
) -> None:
    for method in ("create_key", "optimize_service", "update_archive", "revoke_key"):
        requested(method, [loss], error, match="may have taken effect")
    requested("list_keys", [loss], error, match="Try again|Start one")
    requested("plan_fork", [loss], error, match="Try again|Start one")
    requested("create_key", [ConnectionRefusedError()], Unavailable, match="Start one")


@pytest.mark.parametrize("method", ROTATING)
@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ([UNKNOWN, TimeoutError()], TimedOut),
        ([TimeoutError(), UNKNOWN], TimedOut),
        ([TimeoutError(), UNAUTHORIZED], ApiError),
    ],
    ids=["an earlier release", "an earlier release that had another request", "a key that rotates itself"],
)
def test_a_lost_rotation_that_nobody_can_repeat_says_what_to_do(
    method: str, outcomes: list[Outcome], error: type[Error]
) -> None:
    requested(method, outcomes, error, match="previous_secret_until")


def test_an_earlier_release_rotates_once_without_the_key_that_it_would_ignore() -> None:
    tried, plain = requested("rotate_key", [UNKNOWN, REFUSAL], ApiError)
    assert tried[0] is not None
    assert plain == (None, tried[1])


def test_a_rotation_whose_answer_was_lost_has_the_same_secret(world: World) -> None:
    def lose_one(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        answers.append(network.request(method, path, body, headers))
        if len(answers) == 1:
            raise ConnectionResetError
        return answers[-1]

    answers: list[Answer] = []
    keys = (world.project.id, world.public_key, world.secret)
    with (
        closing(HttpTransport(world.base_url, 30)) as network,
        Client(world.base_url, *keys) as direct,
        Client(world.base_url, *keys, transport=Answering(lose_one)) as client,
    ):
        client.rotate_key(direct.create_key("rotated", Role.VIEWER).public_key)
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
