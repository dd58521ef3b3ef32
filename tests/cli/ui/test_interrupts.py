"""Ctrl-C ends the command but not the operation, and the command says so."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import BOUND_SECONDS
from tests.cli.world import World, open_world


@pytest.fixture
def idle_world(tmp_path: Path) -> Iterator[World]:
    """A server that accepts everything and runs nothing."""
    with open_world(tmp_path / "idle") as made:
        made.runtime.worker.stop()
        yield made


def _interrupted(world: World, home: Path, *arguments: str) -> tuple[int, str]:
    """Run `ramet`, press Ctrl-C once it waits, and return its exit code and what it said."""
    environ = {**os.environ, **world.environ(), "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    # As a terminal starts it: where tests run in the background, the shell has the signal ignored.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "ramet", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environ, text=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            process.wait(BOUND_SECONDS)
        finally:
            process.kill()
    return process.returncode, first + rest


def test_an_interrupted_create_says_how_to_see_the_status_of_the_service(idle_world: World, tmp_path: Path) -> None:
    code, said = _interrupted(idle_world, tmp_path, "service", "create", "shop")
    with idle_world.client() as client:
        [made] = client.list_services()
    assert code == 130
    assert "Creating shop: QUEUED" in said
    assert "Creating shop continues" in said
    assert f"ramet service get {made.service_id}" in said
    assert "Aborted" not in said


def test_an_interrupted_create_prints_a_password_that_is_not_saved(idle_world: World, tmp_path: Path) -> None:
    code, said = _interrupted(idle_world, tmp_path, "service", "create", "shop", "--no-save-password")
    assert code == 130
    [line] = [line for line in said.splitlines() if "password" in line]
    assert len(line.split()[-1]) == 24
