"""Exit codes: those of existing command lines for this interface."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from msgspec.structs import fields

from ramet.api.schemas.shared import Body
from ramet.cli.commands import cli
from ramet.cli.reference import commands
from ramet.cli.ui.exit_codes import exit_code, in_own_words, run
from ramet.client import ApiError, TimedOut, WaitFailed
from ramet.errors import Failed, Forbidden, Invalid, NotFound, Unauthorized, Unavailable, WrongState


@pytest.mark.parametrize(
    ("status", "code"), [(400, 3), (401, 4), (403, 5), (404, 6), (408, 2), (504, 2), (413, 1), (500, 1), (503, 1)]
)
def test_the_exit_code_follows_the_http_status(status: int, code: int) -> None:
    assert exit_code(ApiError(status, "X", "Y")) == code


def test_a_404_of_a_proxy_is_not_taken_for_an_absence() -> None:
    assert exit_code(ApiError(404, "UNKNOWN_ANSWER", "The server answered 404")) == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Invalid, 3),
        (WrongState, 3),
        (Unauthorized, 4),
        (Forbidden, 5),
        (NotFound, 6),
        (TimedOut, 2),
        (WaitFailed, 1),
        (Failed, 1),
        (Unavailable, 1),
    ],
)
def test_the_exit_code_follows_the_kind_of_a_client_side_error(kind: type[Invalid], code: int) -> None:
    assert exit_code(kind("X", "Y.")) == code


def _fields_of_requests() -> set[str]:
    bodies = [Body]
    found: set[str] = set()
    for body in bodies:
        bodies.extend(body.__subclasses__())
        found.update(field.encode_name for field in fields(body) if "_" in field.encode_name)
    return found


# What the command line does not send as an option: arguments, what it fills in itself, parts of others.
_NO_OPTION = {
    *("certificate_authority", "delivery_id", "fork_strategy", "keep_owners", "public_key", "refresh_token"),
    *("region_code", "replica_count", "root_certificate", "secret_key", "source_password", "take_place", "to_url"),
    *("peer_account_id", "peer_region_code", "peer_vpc_id", "vpc_id"),
    "wal_level",  # PostgreSQL's own word, too
}


def test_errors_name_the_options_that_fill_the_fields_of_requests() -> None:
    parameters = [one for _, command in commands(cli) for one in command.params]
    options = {name for one in parameters if isinstance(one, click.Option) for name in one.opts}
    found = _fields_of_requests()
    assert {"cpu_millis", "target_time"} <= found
    assert [name for name in found - _NO_OPTION if in_own_words(name) not in options] == []


def test_a_part_of_a_body_is_shown_as_an_option_with_its_value() -> None:
    assert in_own_words('such as "cpu_millis": "500", "memory_gbs": "2"') == "such as --cpu 500, --memory 2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("No service is named 'parents'. Give parents", "No service is named 'parents'. Give --parent"),
        ("""Its name is "bob's ttl_seconds": ttl_seconds""", """Its name is "bob's ttl_seconds": --ttl"""),
        ("The service's ttl_seconds and the key's parents", "The service's --ttl and the key's --parent"),
        (r"'it\'s parents' has parents", r"'it\'s parents' has --parent"),
    ],
)
def test_names_in_quotes_are_not_taken_for_fields(text: str, said: str) -> None:
    assert in_own_words(text) == said


def test_a_bug_is_reported_in_a_sentence_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logging.root.handlers", [])

    def broken() -> None:
        raise KeyError("missing")

    assert run(broken) == 1
    said = capsys.readouterr()
    assert "KeyError: 'missing'" in said.err
    assert "Traceback" not in said.err


def test_an_interrupted_command_exits_with_130() -> None:
    def interrupted() -> None:
        raise click.Abort

    assert run(interrupted) == 130


def written_to(output: int, *words: str) -> tuple[int, str]:
    """Run `ramet` with this output, as it is outside of tests, and return its exit code and its messages."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "ramet", *words]
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, env=environ, text=True, check=False)
    return done.returncode, done.stderr


# One prints less than what is buffered, one more, and click itself prints the help.
@pytest.mark.parametrize("words", [("config", "show", "-o", "json"), ("settings",), ("--help",), ("key", "--help")])
def test_output_that_nobody_receives_is_an_error_only_on_a_full_disk(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("wb") as full:
        said = "Error: The output cannot be written: No space left on device.\n"
        assert written_to(full.fileno(), *words) == (1, said)
    assert written_to(writing, *words) == (0, "")
    os.close(writing)


def test_the_exit_code_of_a_command_whose_error_nobody_receives_is_the_same() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ramet", "service", "list", "--nope"]
    with Path("/dev/full").open("wb") as full:
        for messages in (full.fileno(), writing):
            assert subprocess.run(command, stderr=messages, check=False).returncode == 3
    os.close(writing)


@pytest.mark.parametrize(("error", "code"), [(click.UsageError("x"), 3), (click.FileError("x"), 1)])
def test_an_error_of_click_that_nobody_receives_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, error: click.ClickException, code: int
) -> None:
    def fail() -> None:
        raise error

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert run(fail) == code
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("config", "show", "-o", "json"), "Error: The output cannot be written: Bad file descriptor.\n"),
        (("settings",), "Error: The output cannot be written: Bad file descriptor.\n"),
        (("config", "set", "output", "json"), "output is saved in HOME/ramet/preferences.json.\n"),
    ],
)
def test_a_process_without_standard_output_fails_where_it_has_output(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ramet", *words]
    done = subprocess.run(command, stderr=subprocess.PIPE, env=environ, text=True, check=False)
    expected = (1 if said.startswith("Error") else 0, said.replace("HOME", str(tmp_path)))
    assert (done.returncode, done.stderr) == expected


def test_a_process_without_standard_error_prints_its_output() -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "ramet", "--help"]
    assert "service" in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("error", "is_ours"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError(errno.ENOENT, "No such file", "x.json"), True),
        (LookupError("x"), True),
    ],
)
def test_a_failed_write_to_standard_output_is_not_reported_as_a_bug(
    capsys: pytest.CaptureFixture[str], error: Exception, is_ours: bool
) -> None:
    def fail() -> None:
        raise error

    assert run(fail) == 1
    assert ("BUG" in capsys.readouterr().err) == is_ours


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.ENAMETOOLONG, errno.EROFS, errno.ENOSPC], ids=os.strerror)
def test_a_file_that_the_host_cannot_have_is_named_and_no_bug(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise OSError(number, os.strerror(number), "/etc/passwd/x")

    assert run(refuse) == 1
    assert capsys.readouterr().err == f"Error: /etc/passwd/x: {os.strerror(number)}.\n"


def test_a_file_of_another_user_is_named_and_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/var/lib/ramet/run.lock")

    assert run(refuse) == 1
    said = capsys.readouterr().err
    assert said == "Error: /var/lib/ramet/run.lock: Permission denied. Run the command as the user that owns it.\n"
