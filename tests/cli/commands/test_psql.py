"""Which psql `ramet db connect` runs if there is none in PATH."""

import subprocess
import sys
from pathlib import Path

import pytest

from ramet.cli.commands.databases import find_psql
from ramet.errors import Failed
from ramet.machine.installation import find_installations
from tests.cli.terminal import Terminal

SERVER_PROGRAMS = ("postgres", "initdb", "pg_config", "pg_controldata")


@pytest.fixture
def without_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose preferred PostgreSQL has only the programs of the server, and whose path has no psql."""
    usual = find_installations().default
    server_only = tmp_path / "bin"
    server_only.mkdir()
    for program in SERVER_PROGRAMS:
        (server_only / program).symlink_to(usual.bin / program)
    monkeypatch.setenv("RAMET_PG_BIN", str(server_only))
    monkeypatch.setenv("PATH", str(tmp_path))
    return server_only


def test_psql_of_another_installation_is_found(without_client: Path) -> None:
    assert find_installations().default.bin == without_client
    program = find_psql(needs_tls=False)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("psql (PostgreSQL)")


def test_psql_that_is_not_in_path_finds_itself(without_client: Path, terminal: Terminal) -> None:
    """psql looks for itself by the name that it is called with: with a name alone it ends with an error."""
    assert terminal.ramet("service", "create", "found").code == 0
    command = [sys.executable, "-m", "ramet", "db", "connect", "found", "--", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("psql (PostgreSQL)")


def test_psql_without_tls_is_not_used_for_an_endpoint_that_requires_it(without_client: Path) -> None:
    assert without_client.is_dir()
    if any(one.has_tls and (one.bin / "psql").exists() for one in find_installations().found):
        chosen = Path(find_psql(needs_tls=True)).parent
        assert next(one for one in find_installations().found if one.bin == chosen).has_tls
        return
    with pytest.raises(Failed, match="has no TLS"):
        find_psql(needs_tls=True)
