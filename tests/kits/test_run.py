"""`ramet run`: the command has a fork, and the fork is gone after it."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.api.schemas.services import Service
from ramet.client import ApiError, Client, ForkStrategy
from ramet.client.errors import UNKNOWN_ANSWER
from ramet.errors import Error, Unavailable
from ramet.kits.run import _run, interruptible
from ramet.kits.throwaway import _renew, throwaway_fork
from ramet.model.rights import Role
from tests.cli.terminal import Terminal
from tests.cli.world import World

_TELL = "import json, os; json.dump(dict(os.environ), open({!r}, 'w'))"


@pytest.fixture(scope="module")
def parent(world: World) -> str:
    with world.client() as client:
        return client.wait_ready(client.create_service("shop").service_id).service_id


def left(world: World) -> list[str]:
    with world.client() as client:
        return [one.name for one in client.list_services() if one.name != "shop" and one.status != "DELETING"]


def python(*lines: str) -> tuple[str, str, str]:
    return sys.executable, "-c", "\n".join(lines)


def test_the_command_gets_the_fork_in_its_variables_and_its_exit_code_is_the_result(
    terminal: Terminal, world: World, parent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    for name in ("PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR", "PGPASSFILE"):
        monkeypatch.setenv(name, "of another server")
    said = terminal.ramet("run", "--fork", "shop", "--", *python(_TELL.format(str(told)), "raise SystemExit(7)"))
    assert said.code == 7
    variables = json.loads(told.read_text())
    with world.client() as client:
        assert variables["RAMET_SERVICE_ID"] != parent
        assert {one.service_id for one in client.list_services()} >= {parent}
    assert variables["DATABASE_URL"] == (
        f"postgresql://tsdbadmin:{variables['PGPASSWORD']}@{variables['PGHOST']}:{variables['PGPORT']}/tsdb"
        f"?sslmode={variables['PGSSLMODE']}"
    )
    assert "of another server" not in variables.values()
    eventually(lambda: left(world) == [])


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("no-such-program-anywhere",), 6),
        (python("import os, signal", "os.kill(os.getpid(), signal.SIGKILL)"), 137),
        (("--version",), 6),
    ],
)
def test_a_command_that_fails_leaves_nothing(
    terminal: Terminal, world: World, parent: str, command: tuple[str, ...], code: int
) -> None:
    assert parent
    assert terminal.ramet("run", "--fork", "shop", "--", *command).code == code
    eventually(lambda: left(world) == [])


def test_a_request_to_end_reaches_the_command_and_the_fork_is_deleted(
    world: World, parent: str, tmp_path: Path
) -> None:
    assert parent
    begun = tmp_path / "begun"
    waits = python(f"open({str(begun)!r}, 'w').close()", "import time", "time.sleep(600)")
    environ = {**os.environ, **world.environ(), "HOME": str(tmp_path)}
    running = subprocess.Popen([sys.executable, "-m", "ramet", "run", "--fork", "shop", "--", *waits], env=environ)
    try:
        eventually(begun.exists)
    finally:
        running.send_signal(signal.SIGTERM)
    assert running.wait(BOUND_SECONDS) == 128 + signal.SIGTERM
    eventually(lambda: left(world) == [])


def test_a_signal_that_is_ignored_is_ignored_by_the_command_too() -> None:
    """Under nohup the end of the terminal ends neither."""
    told = "raise SystemExit(signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
            assert _run(python("import os, signal", "os.kill(os.getppid(), signal.SIGHUP)", told), os.environ) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_to_end_while_the_command_is_started_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def asked_to_end(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **named))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr("ramet.kits.run.subprocess.Popen", asked_to_end)
    try:
        with interruptible():
            assert _run(python("import signal", "signal.pause()"), os.environ) == 128 + signal.SIGTERM
    finally:
        started[0].kill()
        started[0].wait()


def test_a_fork_whose_maker_is_killed_has_a_life_span(world: World, parent: str) -> None:
    with world.client() as client:
        service = client.get_service(parent)
        with throwaway_fork(client, service, ForkStrategy.LAST_SNAPSHOT, outlives_seconds=120) as fork:
            assert client.get_service(fork.service.service_id).metadata.ttl_seconds == 120
        eventually(lambda: left(world) == [])


def test_the_life_span_begins_again_while_the_block_runs(
    world: World, parent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.kits.throwaway._RENEWALS", 60 / 0.05)
    with world.client() as client, throwaway_fork(client, client.get_service(parent), outlives_seconds=60) as fork:
        first = fork.service.metadata.expires_at
        eventually(lambda: client.get_service(fork.service.service_id).metadata.expires_at != first)


def test_a_life_span_that_was_not_extended_is_tried_again_soon(caplog: pytest.LogCaptureFixture) -> None:
    down = Unavailable("DOWN", "Ramet is down")
    answers: list[Error | None] = [None, down, down, None]
    waited = list[float]()

    def extend(_: str) -> None:
        if (failure := answers.pop(0)) is not None:
            raise failure

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return not answers

    client, fork = SimpleNamespace(extend_service=extend), SimpleNamespace(service_id="x", name="fork")
    _renew(cast(Client, client), cast(Service, fork), 600, cast(threading.Event, SimpleNamespace(wait=wait)))
    assert waited == [150, 150, 10, 10, 150]
    assert len(caplog.messages) == 1


def test_a_fork_that_is_deleted_by_another_is_no_error(
    world: World, parent: str, caplog: pytest.LogCaptureFixture
) -> None:
    with world.client() as client:
        with throwaway_fork(client, client.get_service(parent)) as fork:
            client.delete_service(fork.service.service_id)
            client.wait_deleted(fork.service.service_id)
        assert caplog.messages == []


def test_a_proxy_that_does_not_know_ramet_for_a_moment_has_not_deleted_the_fork(
    world: World, parent: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(service_id: str) -> None:
        raise ApiError(404, UNKNOWN_ANSWER, f"The server answered 404 for {service_id}")

    with world.client() as client:
        with throwaway_fork(client, client.get_service(parent)) as fork:
            monkeypatch.setattr(client, "delete_service", unknown)
        monkeypatch.undo()
        client.delete_service(fork.service.service_id)
    assert "was not deleted, and expires by itself" in caplog.text


def test_the_restore_point_is_chosen_as_for_a_fork(terminal: Terminal, world: World, parent: str) -> None:
    assert parent
    assert terminal.ramet("run", "--fork", "shop", "--to", "3000-01-01T00:00:00Z", "--", "true").code == 3
    assert terminal.ramet("run", "--fork", "shop", "--now", "--last-snapshot", "--", "true").code == 3
    assert terminal.ramet("run", "--fork", "absent", "--", "true").code == 6
    assert left(world) == []


@pytest.mark.parametrize("outlives", ["0s", "30s"])
def test_a_life_span_that_is_refused_is_named_by_its_option(
    terminal: Terminal, world: World, parent: str, outlives: str
) -> None:
    assert parent
    said = terminal.ramet("run", "--fork", "shop", "--outlives", outlives, "--", "true")
    assert (said.code, "--outlives must be between 60 and" in said.err) == (3, True), said.err
    assert left(world) == []


def test_the_key_of_a_forker_is_enough(
    terminal: Terminal, world: World, parent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.client() as client:
        key = client.create_key("ci", Role.FORKER, parents=[parent])
    monkeypatch.setenv("RAMET_PUBLIC_KEY", key.public_key)
    monkeypatch.setenv("RAMET_SECRET_KEY", key.secret_key)
    said = terminal.ramet("run", "--fork", "shop", "--", "true")
    assert (said.code, "was not" in said.err) == (0, False), said.err
    eventually(lambda: terminal.ramet("ls", "-o", "json").data == [])
    assert left(world) == []
