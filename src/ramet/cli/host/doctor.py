"""`ramet doctor`: what this host provides, and what Ramet uses of it; `ramet settings`: what can be set."""

import os
import platform
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from ramet import __version__
from ramet.cli.host import instance
from ramet.cli.host.leftovers import show_leftovers
from ramet.cli.ui.options import data_option, output_option
from ramet.cli.ui.output import print_pairs, print_result, print_rows
from ramet.configured import backend_of, describe_host, open_store
from ramet.control.admission import describe_use
from ramet.settings import Described, Settings, describe_settings, load_settings


@click.command("doctor")
@click.option(
    "--leftovers", is_flag=True, help="Compare the host with the store instead. The exit code is 1 if they differ."
)
@click.option("--clean", is_flag=True, help="With --leftovers: remove what is not in the store, after confirmation.")
@click.option("--yes", "-y", is_flag=True, help="With --clean: do not ask for confirmation.")
@data_option
@output_option
def doctor(leftovers: bool, clean: bool, yes: bool, data_dir: Path | None, output: str) -> int:
    """Show what Ramet uses on this host. That is storage, PostgreSQL, TLS, limits and poolers.

    Only --clean changes anything.

    \b
    Examples:
      ramet doctor
      ramet doctor --data /srv/ramet -o json
      ramet doctor --leftovers --clean
    """
    if leftovers:
        return show_leftovers(data_dir, output, clean=clean, confirmed=yes)
    if clean or yes:
        raise click.UsageError("--clean and --yes can only be used with --leftovers.")
    rows = list(_rows(load_settings(data_dir=data_dir)))
    print_result(dict(rows), output, lambda: print_pairs(rows))
    return 0


@click.command("settings")
@output_option
def show_settings(output: str) -> None:
    """List all settings. Each is an environment variable, and has a default.

    \b
    Example:
      ramet settings
    """
    described = list(describe_settings().values())
    print_result([one._asdict() for one in described], output, lambda: print_rows(Described._fields, described))


def _in_use(settings: Settings) -> Sequence[tuple[str, str]]:
    """Return what the host gives, and how much of it the services have, as (title, sentence) rows."""
    backend = backend_of(settings)
    with closing(open_store(settings, migrates=False)) as store:
        return [
            *backend.host.describe(),
            *describe_use(store, backend.admission.capacity(), settings.port_range),
        ]


def _rows(settings: Settings) -> Sequence[tuple[str, str]]:
    found = instance.running(settings.data_dir)
    is_running = found is not None or instance.is_in_use(settings.data_dir)
    process = "Its halves are running (ramet serve, ramet worker)." if is_running else "Not running."
    if found is not None:
        process = f"Running at {found.base_url}, pid {found.process.pid}."
    host = _in_use(settings) if is_running else describe_host(settings)
    return [
        ("ramet", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"),
        ("user", "root" if os.geteuid() == 0 else f"an ordinary user (uid {os.geteuid()})"),
        ("data", str(settings.data_dir)),
        ("process", process),
        *host,
    ]
