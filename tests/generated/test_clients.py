"""Clients generated from openapi.json compile, list, fork and delete. The one in TypeScript needs node and npm."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import World, open_world

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "openapi.json"
TOOLS = HERE / "typescript" / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A running server with one service."""
    with open_world(tmp_path_factory.mktemp("world")) as made:
        with made.client() as client:
            parent = client.create_service("shop").service_id
            client.wait_ready(parent)
        yield made


def run(*command: str | Path, directory: Path, variables: Mapping[str, str] | None = None) -> str:
    environ = {**os.environ, **(variables or {})}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(world: World, printed: str) -> None:
    """Check that the fork was accepted by the server, and its deletion too."""
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert result["deleted"] == 202
    with world.client() as client:
        client.wait_deleted(result["forked"])
        assert [service.name for service in client.list_services()] == ["shop"]


@pytest.mark.slow
def test_the_python_client_lists_forks_and_deletes(world: World, tmp_path: Path) -> None:
    generator = Path(sys.executable).parent / "openapi-python-client"
    arguments = ("--path", DOCUMENT, "--output-path", tmp_path / "ramet_client", "--meta", "none", "--fail-on-warning")
    # The generator formats what it made with ruff, which stands beside it.
    found = {"PATH": f"{generator.parent}:{os.environ['PATH']}"}
    run(generator, "generate", *arguments, directory=tmp_path, variables=found)
    variables = {**world.environ(), "PYTHONPATH": str(tmp_path)}
    check(world, run(sys.executable, HERE / "python_client.py", directory=tmp_path, variables=variables))


@pytest.mark.slow
@pytest.mark.typescript
def test_the_typescript_client_lists_forks_and_deletes(world: World, tmp_path: Path) -> None:
    for name in ("client.ts", "package.json", "tsconfig.json"):
        shutil.copy(HERE / "typescript" / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(TOOLS.parent)
    run(TOOLS / "openapi-typescript", DOCUMENT, "--output", tmp_path / "ramet.d.ts", directory=tmp_path)
    run(TOOLS / "tsc", directory=tmp_path)
    check(world, run("node", tmp_path / "built" / "client.js", directory=tmp_path, variables=world.environ()))
