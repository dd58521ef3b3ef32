"""`ramet doctor`: what this host gives to Ramet, and what is in force; `ramet settings`: what can be set."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import click

from ramet import __version__
from ramet.app import describe_host, local_backend
from ramet.cli.host import instance
from ramet.cli.host.leftovers import show_leftovers
from ramet.cli.ui.options import data_option, output_option
from ramet.cli.ui.output import print_data, print_pairs, print_rows
from ramet.settings import Described, Settings, describe_settings, load_settings


@click.command("doctor")
@click.option("--leftovers", is_flag=True, help="Compare the host with the store instead; exit code 1 if they differ.")
@click.option("--clean", is_flag=True, help="With --leftovers: remove what no row owns, after asking.")
@click.option("--yes", "-y", is_flag=True, help="With --clean: do not ask.")
@data_option
@output_option
def doctor(leftovers: bool, clean: bool, yes: bool, data_dir: Path | None, output: str) -> int:
    """Say what is in force here: storage, PostgreSQL, TLS, limits, pooler. Changes nothing but with --clean.

    \b
    Examples:
      ramet doctor
      ramet doctor --data /srv/ramet -o json
      ramet doctor --leftovers --clean
    """
    settings = load_settings(data_dir=data_dir)
    if leftovers:
        return show_leftovers(settings, output, clean=clean, confirmed=yes)
    if clean or yes:
        raise click.UsageError("--clean and --yes belong to --leftovers.")
    rows = list(_rows(settings))
    if output == "table":
        print_pairs(rows)
    else:
        print_data(dict(rows), output)
    return 0


@click.command("settings")
@output_option
def show_settings(output: str) -> None:
    """List the variables that change how Ramet runs.

    \b
    Example:
      ramet settings
    """
    described = list(describe_settings().values())
    if output == "table":
        print_rows(Described._fields, described)
    else:
        print_data([one._asdict() for one in described], output)


def _rows(settings: Settings) -> Sequence[tuple[str, str]]:
    found = instance.running(settings.data_dir)
    process = "Not up." if found is None else f"Up at {found.base_url}, pid {found.process.pid}."
    host = describe_host(settings) if found is None else local_backend(settings).host.describe()
    return [
        ("ramet", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"),
        ("user", "root" if os.geteuid() == 0 else f"an ordinary user ({os.geteuid()})"),
        ("data", str(settings.data_dir)),
        ("process", process),
        *host,
    ]
