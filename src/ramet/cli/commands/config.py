"""`ramet config`: the server, project and key that commands use, and the format of results."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from ramet.cli.ui.options import credentials_option, output_option
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.cli.user_files.credentials import (
    CA,
    CA_VARIABLE,
    CREDENTIALS_VARIABLE,
    VARIABLES,
    config_path,
    full_address,
    read_authority,
    read_saved,
)
from ramet.cli.user_files.files import changing, write_values
from ramet.cli.user_files.preferences import FORMATS, OUTPUT_VARIABLE, preferences_path, preferred_output, save_output
from ramet.errors import Invalid
from ramet.ids import is_id

_SECRET = "secret_key"  # noqa: S105 - a name
_KEY = re.compile(r"[A-Za-z0-9_-]{1,200}")


@click.group("config")
def config_group() -> None:
    """Show and change the configuration. It has server, project and key, and the format of results."""


@config_group.command("show")
@credentials_option
@output_option
def show(credentials_file: Path | None, output: str) -> None:
    """Show the values that commands use, and where they come from. The secret is not shown.

    \b
    Examples:
      ramet config show
      ramet config show -o json
    """
    found = [*_credentials(credentials_file, os.environ), ("output", *preferred_output())]
    data = {name: {"value": value, "from": origin} for name, value, origin in found}
    rows = [(name, value or "-", origin) for name, value, origin in found]
    print_result(data, output, lambda: print_rows(("name", "value", "from"), rows))


@config_group.command("set")
@click.argument("name", type=click.Choice([*VARIABLES, CA, "output"]))
@click.argument("value", required=False)
def set_value(name: str, value: str | None) -> None:
    """Save a value in your configuration, which only you can read. RAMET_* variables override it.

    The value of ca is a file: what 'ramet ca' prints. Its content is saved.

    The command prompts for the secret key, or reads it from standard input, so that no shell history contains it.

    \b
    Examples:
      ramet config set base_url http://db.example.com:8080
      ramet config set project_id rp1pz7uyae
      ramet config set public_key RK3X9
      pass show ramet | ramet config set secret_key
      ramet config set ca ramet-ca.crt
      ramet config set output json
    """
    if name == _SECRET and value is not None:
        raise click.UsageError("secret_key cannot be an argument: omit it, and the command prompts for it.")
    if name != _SECRET and value is None:
        raise click.UsageError(f"Missing argument 'VALUE': the value of {name}.")
    wanted = _CHECKS[name](_asked() if value is None else value)
    if name == "output":
        save_output(wanted)
    else:
        with changing(config_path()):
            write_values(config_path(), {**read_saved(config_path()), name: wanted})
    say(f"{name} is saved in {preferences_path() if name == 'output' else config_path()}.")
    variable = {**VARIABLES, CA: CA_VARIABLE, "output": OUTPUT_VARIABLE}[name]
    for before in (variable, *([CREDENTIALS_VARIABLE] if name != "output" else [])):
        if os.environ.get(before):
            say(f"The variable {before} is set, and overrides it.", "yellow")


def _credentials(named: Path | None, environ: Mapping[str, str]) -> list[tuple[str, str | None, str]]:
    """Return (name, value to show, origin); the value is None if it is not set."""
    path = config_path(environ) if named is None else named
    kept = read_saved(path)
    variables = environ if named is None else {}
    found = []
    for name, variable in {**VARIABLES, CA: CA_VARIABLE}.items():
        value, origin = (variables[variable], variable) if variables.get(variable) else (kept.get(name), str(path))
        if name == "base_url" and value is not None:
            value = full_address(value)
        if name == CA and value is not None and origin != variable:
            value = "a certificate"
        shown = "***" if value is not None and name == _SECRET else value
        found.append((name, shown, "not set" if value is None else origin))
    return found


def _asked() -> str:
    """Return the secret from a prompt that does not show it, or from a line of standard input."""
    if sys.stdin.isatty():
        typed: str = click.prompt("Secret key", hide_input=True, err=True)
        return typed
    return sys.stdin.readline().strip()


def _matching(name: str, wanted: str, holds: Callable[[str], bool]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not holds(value):
            shown = "" if name == _SECRET else f" (got {value[:100]!r})"
            raise Invalid("BAD_VALUE", f"{name} must be {wanted}{shown}")
        return value

    return check


_CHECKS: Mapping[str, Callable[[str], str]] = {
    "base_url": full_address,
    CA: read_authority,
    "project_id": _matching("project_id", "ten letters a-z and digits", is_id),
    "public_key": _matching("public_key", "letters and digits", lambda value: _KEY.fullmatch(value) is not None),
    _SECRET: _matching(_SECRET, "letters and digits", lambda value: _KEY.fullmatch(value) is not None),
    "output": _matching("output", "one of " + ", ".join(FORMATS), lambda value: value in FORMATS),
}
