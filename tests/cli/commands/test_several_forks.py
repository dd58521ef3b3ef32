"""`ramet service fork --count`: what happens to each fork when one fails, or nobody waits for them any longer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ramet.backends.memory.restore import MemoryRestore
from ramet.cli.user_files.passwords import find_password
from ramet.errors import Failed
from ramet.model.names import NAME_LIMIT
from tests.cli.terminal import Terminal
from tests.cli.world import World, open_world


@pytest.fixture(scope="module", autouse=True)
def shop(world: World) -> None:
    with world.client() as client:
        client.wait_ready(client.create_service("shop").service_id)


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[World]:
    """A server with a service that accepts forks, and makes none."""
    with open_world(tmp_path / "idle") as made:
        with made.client() as client:
            client.wait_ready(client.create_service("shop").service_id)
        made.runtime.worker.stop()
        yield made


def forks(world: World, name: str) -> list[Any]:
    with world.client() as client:
        return [one for one in client.list_services() if one.name.startswith(f"{name}-")]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_one_list_also_of_forks_that_exist(terminal: Terminal, output: str) -> None:
    words = ("service", "fork", "shop", "--name", output, "--count", "2", "-o", output)
    made = yaml.safe_load(terminal.ramet(*words).out)
    assert [(one["name"], one["status"]) for one in made] == [(f"{output}-1", "READY"), (f"{output}-2", "READY")]
    assert len({one["initial_password"] for one in made}) == 2
    again = yaml.safe_load(terminal.ramet(*words, "--if-not-exists").out)
    assert {one["service_id"] for one in again} == {one["service_id"] for one in made}


def test_forks_with_names_of_full_length_are_found_again(terminal: Terminal) -> None:
    words = ("service", "fork", "shop", "--name", "n" * NAME_LIMIT, "--count", "2")
    made = terminal.made(*words)
    assert [one["name"][-4:] for one in made] == ["nn-1", "nn-2"]
    again = terminal.made(*words, "--if-not-exists")
    assert [one["service_id"] for one in again] == [one["service_id"] for one in made]


def test_one_fork_is_no_list(terminal: Terminal) -> None:
    words = ("service", "fork", "shop", "--name", "alone", "--count", "1")
    made = terminal.made(*words)
    assert terminal.made(*words, "--if-not-exists")["service_id"] == made["service_id"]


def test_all_passwords_are_saved_before_the_first_wait(
    terminal: Terminal, idle: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in idle.environ().items():
        monkeypatch.setenv(name, value)
    words = ("service", "fork", "shop", "--count", "2", "--wait-timeout", "0s", "--name")
    late = terminal.ramet(*words, "late", "-o", "json")
    assert (late.code, late.data) == (2, [])
    made = forks(idle, "late")
    assert [find_password(one.endpoint) is not None for one in made] == [True, True]
    assert all(one.service_id in late.err for one in made)
    said = terminal.ramet(*words, "unsaved", "--no-save-password").err
    for one in forks(idle, "unsaved"):
        assert find_password(one.endpoint) is None
        assert f"The password of {one.name} ({one.service_id}) is not saved in a file: " in said


def test_a_fork_that_fails_does_not_hide_the_others(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover = MemoryRestore.recover

    def recover_all_but_the_first(self: MemoryRestore, child: Any, *arguments: Any) -> Any:
        if child.service_id in [one.service_id for one in forks(world, "some") if one.name == "some-1"]:
            raise Failed("RECOVERY_FAILED", "Recovery failed for a test")
        return recover(self, child, *arguments)

    monkeypatch.setattr(MemoryRestore, "recover", recover_all_but_the_first)
    said = terminal.ramet("service", "fork", "shop", "--name", "some", "--count", "2", "-o", "json")
    assert [(one["name"], one["status"]) for one in said.data] == [("some-2", "READY")]
    assert (said.code, "Recovery failed for a test" in said.err) == (1, True)
