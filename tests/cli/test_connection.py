"""What leads the programs of libpq to a service, and to nothing else."""

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from ramet.cli import connection
from ramet.cli.commands import cli
from ramet.cli.connection import libpq_environ
from ramet.cli.ui.exit_codes import run
from ramet.client import ApiError, Client
from ramet.model.status import Status
from tests.cli.terminal import Terminal
from tests.cli.world import World

ELSEWHERE = {"PGSERVICE": "prod", "PGSERVICEFILE": "/prod.conf", "PGHOSTADDR": "192.0.2.1"}
SCRIPT = b"-- \r\n\r \xff\n"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose variables lead libpq to another server, with the password of that."""
    for name, value in {**ELSEWHERE, "PGPASSWORD": "of another server"}.items():
        monkeypatch.setenv(name, value)


def test_variables_that_lead_elsewhere_are_dropped_and_a_password_only_for_another() -> None:
    own = {"PGPASSFILE": "mine", "PGPASSWORD": "mine", "PGAPPNAME": "shop"}
    assert libpq_environ({}, {**ELSEWHERE, **own}) == own
    for given in ({"PGPASSFILE": "saved"}, {"PGPASSWORD": "of the fork"}):
        assert libpq_environ(given, {**ELSEWHERE, **own}) == {"PGAPPNAME": "shop", **given}


def test_a_login_that_is_asked_for_while_the_service_falls_asleep_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0)
    client, awake, asleep = create_autospec(Client, instance=True), Mock(status=Status.READY), Mock()
    awake.metadata.sleeping = False
    client.get_service.return_value = asleep
    falling = ApiError(503, "FALLING_ASLEEP", "Service shop is falling asleep")
    made = Mock()
    client.create_login.side_effect = [falling, made]
    assert connection.log_in(client, awake) is made
    client.start_service.assert_called_once_with(asleep.service_id)
    client.create_login.side_effect = falling
    monkeypatch.setattr(connection, "_ASLEEP_WITHIN_SECONDS", 0)
    with pytest.raises(ApiError, match="falling asleep"):
        connection.log_in(client, awake)


@pytest.mark.usefixtures("elsewhere")
def test_psql_connects_to_the_service_with_its_saved_password(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "psql"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps(dict(os.environ, WORDS=sys.argv[1:])))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert terminal.ramet("service", "create", "asked").code == 0

    def environ(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "ramet", "db", "connect", "asked", *words]
        found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=250).stdout)
        return found

    assert environ().keys() & {*ELSEWHERE, "PGPASSWORD"} == set()
    assert environ()["PGPASSFILE"] == str(terminal.config / "pgpass")
    # The saved password is the admin's: for another role the user's own is used.
    assert environ("--role", "reporting")["PGPASSWORD"] == "of another server"
    assert environ("--role", "reporting")["PGUSER"] == "reporting"
    # Nothing that is passed hides the user's own options: psql takes the first word that is no option as the database.
    found = environ("--", "-d", "other")
    assert (found["WORDS"], found["PGDATABASE"], found["PGUSER"]) == (["-d", "other"], "tsdb", "tsdbadmin")
    assert int(found["PGPORT"]) > 0


@pytest.mark.usefixtures("elsewhere")
def test_pg_dump_connects_to_the_service_with_its_saved_password(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mapping[str, str]] = []
    monkeypatch.setattr("ramet.cli.commands.schema.dump_schema", lambda _, __, environ, ___: seen.append(environ))
    monkeypatch.setattr("ramet.cli.commands.dumps._dump", writing(seen))
    assert terminal.ramet("service", "create", "dumped").code == 0
    assert terminal.ramet("db", "schema", "dumped").code == 0
    assert terminal.ramet("db", "dump", "dumped", "--file", str(terminal.home / "script")).code == 0
    assert [one.keys() & {*ELSEWHERE, "PGPASSWORD", "PGPASSFILE"} for one in seen] == [{"PGPASSFILE"}] * 2


def test_a_dump_is_printed_byte_for_byte(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name, value in {**world.environ(), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with world.client() as client:
        service = client.wait_ready(client.create_service("printed").service_id)
    monkeypatch.setattr("ramet.cli.commands.dumps._dump", writing([]))
    words = ["db", "dump", service.service_id]
    assert run(lambda: cli.main(words, prog_name="ramet", standalone_mode=False)) == 0
    assert capsysbinary.readouterr().out == SCRIPT


def test_a_dump_does_not_replace_a_pipe_or_a_link(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.cli.commands.dumps._dump", writing([]))
    terminal.made("service", "create", "piped")
    pipe, link, below = tmp_path / "pipe", tmp_path / "link", tmp_path / "regular" / "below"
    os.mkfifo(pipe)
    (tmp_path / "regular").touch()
    link.symlink_to("regular")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert [terminal.ramet("db", "dump", "piped", "-f", str(one)).code for one in (pipe, link)] == [0, 0]
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    reader.join(60)
    assert (received, (tmp_path / "regular").read_bytes()) == ([SCRIPT], SCRIPT)
    refused = terminal.ramet("db", "dump", "piped", "-f", str(below))
    assert (refused.code, "below cannot be written: Not a directory" in refused.err) == (1, True)


def test_a_dump_can_be_read_by_nobody_else_than_the_file_that_it_replaces(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.cli.commands.dumps._dump", writing([]))
    terminal.made("service", "create", "secret")
    file = tmp_path / "script"
    file.touch(0o600)
    assert terminal.ramet("db", "dump", "secret", "-f", str(file)).code == 0
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (SCRIPT, 0o600)


def writing(seen: list[Mapping[str, str]]) -> Any:
    """Return what writes SCRIPT in place of pg_dump, and keeps the environment that pg_dump would have."""

    def dump(_: Path, __: str, directory: Path, ___: Sequence[str], environ: Mapping[str, str], ____: int) -> Path:
        seen.append(environ)
        (directory / "script").write_bytes(SCRIPT)
        return directory / "script"

    return dump
