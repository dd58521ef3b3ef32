"""Tables: text is not markup, and a narrow terminal shows the most important columns."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from ramet.cli.ui.output import print_pairs, print_rows, say
from ramet.cli.ui.service_views import COLUMNS
from ramet.cli.ui.tables import lay_out
from tests.cli.terminal import Terminal
from tests.cli.world import World

SOURCES = Path(__file__).parents[3] / "src" / "ramet" / "cli"
BRACKETED = ("a[/b]", "[red]x[/red]", "[postgres]", "\\[x", ":smile:", "[link=x]y")
NATURAL = {"service": 40, "id": 10, "status": 16, "env": 4, "endpoint": 15, "created": 19}


@pytest.mark.parametrize("text", BRACKETED)
def test_text_is_printed_without_markup_or_emoji(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows((text, "column"), [[text, "cell"]])
    print_pairs([(text, text)])
    say(text)
    printed = capsys.readouterr()
    assert [line.split("   ")[0] for line in printed.out.splitlines()] == [text] * 3
    assert printed.err == f"{text}\n"


@pytest.mark.parametrize("style", ["", "red"])
def test_no_control_characters_reach_the_terminal(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\x1b]0;title\x9b2Jb"
    shown = r"a\x1b]0;title\x9b2Jb"
    print_rows((text, "column"), [[Text(text, style=style), "cell"], [text, "cell"]])
    print_pairs([(text, Text(text, style=style))])
    say(text, style)
    printed = capsys.readouterr()
    assert [line.count(shown) for line in printed.out.splitlines()] == [1, 1, 1, 2]
    assert "column" in printed.out.splitlines()[0]
    assert printed.err == f"{shown}\n"


@pytest.mark.parametrize("name", BRACKETED[:4])
def test_every_command_prints_names_with_brackets_unchanged(name: str, world: World, terminal: Terminal) -> None:
    made = terminal.ramet("service", "create", name)
    assert made.code == 0, made.err
    assert f"Creating {name}: READY" in made.err
    assert f"{name} is READY" in made.err
    commands = (("service", "list"), ("service", "get", name), ("operations", name), ("operations", "--steps"))
    for command in commands:
        said = terminal.ramet(*command)
        assert (said.code, name in said.out) == (0, True), (command, said)
    forked = terminal.ramet("service", "fork", name, "--now")
    assert f"{name} (" in forked.out
    assert terminal.ramet("service", "delete", name, "--yes").code == 0


def test_only_output_creates_rich_consoles() -> None:
    makers = [path.name for path in SOURCES.rglob("*.py") if " Console(" in path.read_text()]
    assert makers == ["output.py"]


@pytest.mark.parametrize("room", [20, 40, 60, 80, 100, 200])
def test_the_status_column_is_always_shown_in_full(room: int) -> None:
    layout = lay_out(NATURAL, room)
    assert layout.widths["status"] == NATURAL["status"]
    assert set(layout.left_out) | set(layout.widths) == set(NATURAL)


def test_the_least_important_column_is_dropped_first() -> None:
    left_out = {room: lay_out(NATURAL, room).left_out for room in (200, 91, 90, 69, 62, 40)}
    assert left_out == {
        200: (),
        91: (),
        90: ("created",),
        69: ("created",),
        62: ("env", "created"),
        40: ("id", "env", "endpoint", "created"),
    }


def test_in_80_columns_the_own_space_of_services_is_shown() -> None:
    natural = dict(zip(COLUMNS, (14, 10, 8, 4, 13, 12, 15, 7, 6, 19), strict=True))
    left_out = lay_out(natural, 80).left_out
    assert {"own", "service", "status", "endpoint"}.isdisjoint(left_out), left_out


@pytest.mark.parametrize("state", ["status", "outcome", "result", "revoked"])
@pytest.mark.parametrize("room", [20, 40, 60])
def test_the_state_of_a_row_is_the_last_column_that_is_dropped(state: str, room: int) -> None:
    columns = ("public key", "database", "name", "set", "operation", "reason", "from", "to", "created", state)
    layout = lay_out(dict.fromkeys(columns, 19), room)
    assert layout.widths[state] == 19


@given(st.dictionaries(st.sampled_from([*NATURAL, "reason", "name", "took"]), st.integers(1, 60), min_size=1))
def test_a_layout_fits_the_terminal_or_has_one_column(natural: dict[str, int]) -> None:
    widths = lay_out(natural, 60).widths
    assert sum(widths.values()) + 3 * (len(widths) - 1) <= 60 or len(widths) == 1
    assert all(width <= natural[column] for column, width in widths.items())


def _on_terminal(columns: int, *arguments: str, environ: dict[str, str]) -> str:
    """Return what `ramet` writes to a terminal of a width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ramet", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**inherited, "TERM": "xterm", **environ},
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # Linux says so when the last writer has gone
        pass
    os.close(ours)
    assert process.wait(60) == 0, written.decode()
    return written.decode()


@pytest.mark.parametrize(("output", "shown"), [("table", "caf\xe9 ?"), ("json", r'"caf\u00e9 \u2192"')])
def test_what_the_encoding_of_the_output_lacks_is_replaced(
    world: World, terminal: Terminal, output: str, shown: str
) -> None:
    terminal.made("service", "create", "caf\xe9 \u2192", "--if-not-exists")
    done = subprocess.run(
        [sys.executable, "-m", "ramet", "ls", "-o", output],
        env={**os.environ, **world.environ(), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        encoding="latin-1",
        timeout=250,
        check=False,
    )
    assert (done.returncode, shown in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_terminal_of_sixty_columns_shows_each_status_in_full(world: World, terminal: Terminal) -> None:
    name = "a[/b] with a name that is much too long for a narrow terminal"
    environ = world.environ()
    made = _on_terminal(60, "service", "create", name, environ=environ)
    assert f"{name} is READY" in made.replace("\r\n", "")
    listed = _on_terminal(60, "service", "list", environ=environ)
    assert "READY" in listed
    assert "a[/b] with" in listed
    assert "Not shown in 60 columns: " in listed
    assert "POSTGRES" not in listed
