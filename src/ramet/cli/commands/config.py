"""`ramet config`: which server, project and key the command line uses, and how it prints."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from ramet.cli.ui.options import credentials_option, output_option
from ramet.cli.ui.output import print_data, print_rows, say
from ramet.cli.user_files.credentials import (
    CREDENTIALS_VARIABLE,
    VARIABLES,
    config_path,
    full_address,
    read_values,
    write_values,
)
from ramet.cli.user_files.preferences import (
    FORMATS,
    OUTPUT_VARIABLE,
    keep_output,
    kept_output,
    preferences_path,
    preferred_output,
)
from ramet.errors import Invalid
from ramet.ids import is_id

_SECRET = "secret_key"  # noqa: S105 - a name
_KEY = re.compile(r"[A-Za-z0-9_-]{1,200}")


@click.group("config")
def config_group() -> None:
    """Show and change which server, project and key the command line uses, and how it prints."""


@config_group.command("show")
@credentials_option
@output_option
def show(credentials_file: Path | None, output: str) -> None:
    """Show what is in force, and where it comes from. The secret is never shown.

    \b
    Examples:
      ramet config show
      ramet config show -o json
    """
    found = [*_credentials(credentials_file, os.environ), _output(os.environ)]
    if output != "table":
        print_data({name: {"value": value, "from": origin} for name, value, origin in found}, output)
    else:
        print_rows(("name", "value", "from"), [(name, value or "-", origin) for name, value, origin in found])


@config_group.command("set")
@click.argument("name", type=click.Choice([*VARIABLES, "output"]))
@click.argument("value", required=False)
def set_value(name: str, value: str | None) -> None:
    """Keep a value in the user's configuration, readable by its owner only. RAMET_* variables go before it.

    The secret is asked for, or read from standard input, so that it is in no history of commands.

    \b
    Examples:
      ramet config set base_url http://db.example.com:8080
      ramet config set project_id rp1pz7uyae
      ramet config set public_key RK3X9
      pass show ramet | ramet config set secret_key
      ramet config set output json
    """
    if name == _SECRET and value is not None:
        raise click.UsageError("The secret is no argument: leave it out, and it is asked for.")
    if name != _SECRET and value is None:
        raise click.UsageError(f"Say what {name} is to be.")
    wanted = _CHECKS[name](_asked() if value is None else value)
    if name == "output":
        keep_output(wanted)
    else:
        write_values(config_path(), {**(read_values(config_path()) or {}), name: wanted})
    say(f"{name} is kept in {preferences_path() if name == 'output' else config_path()}.")
    variable = {**VARIABLES, "output": OUTPUT_VARIABLE}[name]
    for before in (variable, *([CREDENTIALS_VARIABLE] if name != "output" else [])):
        if os.environ.get(before):
            say(f"{before} is set, and goes before it.", "yellow")


def _credentials(named: Path | None, environ: Mapping[str, str]) -> list[tuple[str, str | None, str]]:
    """Return (name, value to show, where from); the value is None where there is none."""
    path = config_path(environ) if named is None else named
    kept = read_values(path) or {}
    variables = environ if named is None else {}
    found = []
    for name, variable in VARIABLES.items():
        value, origin = (variables[variable], variable) if variables.get(variable) else (kept.get(name), str(path))
        if name == "base_url" and value is not None:
            value = full_address(value)
        shown = "***" if value is not None and name == _SECRET else value
        found.append((name, shown, "not set" if value is None else origin))
    return found


def _output(environ: Mapping[str, str]) -> tuple[str, str, str]:
    if environ.get(OUTPUT_VARIABLE):
        origin = OUTPUT_VARIABLE
    else:
        origin = "default" if kept_output(environ) is None else str(preferences_path(environ))
    return "output", preferred_output(environ), origin


def _asked() -> str:
    """Return the secret: typed unseen, or a line of standard input."""
    if sys.stdin.isatty():
        typed: str = click.prompt("Secret key", hide_input=True, err=True)
        return typed
    return sys.stdin.readline().strip()


def _matching(name: str, wanted: str, holds: Callable[[str], bool]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not holds(value):
            shown = "what was given" if name == _SECRET else repr(value[:100])
            raise Invalid("BAD_VALUE", f"{name} cannot be {shown}", f"It must be {wanted}.")
        return value

    return check


_CHECKS: Mapping[str, Callable[[str], str]] = {
    "base_url": full_address,
    "project_id": _matching("project_id", "ten letters a-z and digits", is_id),
    "public_key": _matching("public_key", "letters and digits", lambda value: _KEY.fullmatch(value) is not None),
    _SECRET: _matching(_SECRET, "letters and digits", lambda value: _KEY.fullmatch(value) is not None),
    "output": _matching("output", "one of " + ", ".join(FORMATS), lambda value: value in FORMATS),
}
