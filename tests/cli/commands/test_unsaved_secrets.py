"""Secrets that only one answer has are shown where their file cannot be written."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ramet.api.schemas.moves import Move
from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.backends.interface.values import Server
from ramet.client import Client
from ramet.client.http_connection import Answer
from ramet.client.transport import HttpTransport
from ramet.control.idempotency import may_open
from ramet.errors import Unavailable
from ramet.model.secret import Secret
from ramet.model.status import OperationStatus
from ramet.store import services
from tests.cli.terminal import Said, Terminal
from tests.cli.world import World


@pytest.fixture
def unwritable(terminal: Terminal) -> Terminal:
    """A user whose file of passwords cannot be written."""
    (terminal.config / ".pgpass.lock").mkdir(parents=True)
    return terminal


def listed(world: World, name: str) -> list[Service]:
    with world.client() as client:
        return [one for one in client.list_services() if one.name.startswith(name)]


def opens(world: World, service_id: str, password: str) -> bool:
    with world.runtime.store.read() as tx:
        stored = services.get_service(tx, service_id)
    assert stored is not None
    return may_open(world.runtime.plane, stored, Secret(password))


def shown(said: Said, of: str) -> str:
    """Return the password that was shown."""
    (line,) = [line for line in said.err.splitlines() if line.startswith(f"The password {of} is not saved")]
    return line.rpartition(": ")[2]


def is_refusal(said: Said) -> bool:
    return (said.code, "pgpass cannot be written: Is a directory" in said.err) == (1, True)


def test_the_password_of_a_new_service_is_shown(unwritable: Terminal, world: World) -> None:
    said = unwritable.ramet("service", "create", "lone")
    (made,) = listed(world, "lone")
    assert is_refusal(said)
    assert opens(world, made.service_id, shown(said, f"of lone ({made.service_id})"))


def test_the_passwords_of_all_forks_are_shown(unwritable: Terminal, world: World) -> None:
    unwritable.made("service", "create", "parent", "--no-save-password")
    said = unwritable.ramet("service", "fork", "parent", "--count", "2", "--name", "some")
    made = listed(world, "some-")
    assert (is_refusal(said), len(made)) == (True, 2)
    for one in made:
        assert opens(world, one.service_id, shown(said, f"of {one.name} ({one.service_id})"))


@pytest.mark.parametrize("options", [(), ("--no-save-password",)])
def test_a_generated_password_is_printed(terminal: Terminal, options: tuple[str, ...]) -> None:
    made = terminal.made("service", "create", f"changed{len(options)}")
    (terminal.config / ".pgpass.lock").unlink()
    (terminal.config / ".pgpass.lock").mkdir()
    said = terminal.ramet("service", "update-password", made["service_id"], "--generate", *options)
    assert (is_refusal(said), "is changed." in said.err) == (True, True)
    assert len(said.out.strip()) == 24


@pytest.mark.parametrize("loss", [TimeoutError(), ConnectionResetError(), KeyboardInterrupt()], ids=repr)
def test_a_generated_password_whose_answer_is_lost_is_shown(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch, loss: BaseException
) -> None:
    made = terminal.made("service", "create", f"unsure-{type(loss).__name__}")
    request = HttpTransport.request

    def lose(transport: HttpTransport, method: str, path: str, *rest: Any) -> Answer:
        answer = request(transport, method, path, *rest)
        if path.endswith("updatePassword"):
            raise loss
        return answer

    monkeypatch.setattr(HttpTransport, "request", lose)
    said = terminal.ramet("service", "update-password", made["service_id"], "--generate")
    assert said.code != 0
    assert opens(world, made["service_id"], shown(said, f"that {made['name']} may have now"))


@pytest.mark.parametrize(
    ("fault", "is_shown"),
    [
        (Unavailable("SERVER_UNREACHABLE", "The server closed the connection"), True),
        (RuntimeError("a fault"), True),
        (Unavailable("ROLE_LOCKED", "A transaction keeps the role locked"), False),
    ],
    ids=repr,
)
def test_a_generated_password_is_shown_where_the_server_fails_after_the_change(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch, fault: Exception, is_shown: bool
) -> None:
    made = terminal.made("service", "create", f"broken-{type(fault).__name__}-{is_shown}")
    set_password = world.backend.servers.set_password

    def fail(server: Server, verifier: Secret) -> None:
        if is_shown:
            set_password(server, verifier)
        raise fault

    monkeypatch.setattr(world.backend.servers, "set_password", fail)
    said = terminal.ramet("service", "update-password", made["service_id"], "--generate")
    assert said.code != 0
    assert ("is not saved in a file" in said.err) is is_shown
    if is_shown:
        assert opens(world, made["service_id"], shown(said, f"that {made['name']} may have now"))


@pytest.mark.parametrize("lost", ["file", "answer"])
def test_the_password_of_a_fork_that_an_upgrade_leaves_is_shown(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    made = terminal.made("service", "create", f"old-{lost}")
    get_service = Client.get_service

    def unreachable(client: Client, service_id: str) -> Service:
        if service_id != made["service_id"]:
            raise Unavailable("SERVER_UNREACHABLE", "No Ramet answers")
        return get_service(client, service_id)

    if lost == "file":
        (terminal.config / ".pgpass.lock").unlink()
        (terminal.config / ".pgpass.lock").mkdir()
    else:
        monkeypatch.setattr(Client, "get_service", unreachable)
    said = terminal.ramet("service", "upgrade", made["service_id"], "--to", "19", "--try", "--keep-fork", "--no-wait")
    with world.client() as client:
        (upgrade,) = client.list_upgrades(made["service_id"]).upgrades
    assert said.code == 1
    assert len(shown(said, f"of the fork {upgrade.upgrade_id}")) == 24


def test_a_move_whose_password_cannot_be_saved_is_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal.made("service", "create", "moved")
    (terminal.config / ".pgpass.lock").unlink()
    (terminal.config / ".pgpass.lock").mkdir()
    moved = Move(
        move_id="0123456789",
        service_id=made["service_id"],
        status=OperationStatus.SUCCEEDED,
        started_at=datetime.now(UTC),
        to_url="http://there",
        name="moved",
        kept_as="moved-moved",
        endpoint=Endpoint("there", 5432),
    )
    monkeypatch.setattr(Client, "move_service", lambda *_, **__: moved)
    monkeypatch.setenv("RAMET_TARGET_PUBLIC_KEY", "public")
    monkeypatch.setenv("RAMET_TARGET_SECRET_KEY", "secret")
    said = terminal.ramet("service", "move", "moved", "--to", "http://there", "--yes", "--no-wait", "-o", "json")
    assert is_refusal(said)
    assert said.data["endpoint"] == {"host": "there", "port": 5432}
