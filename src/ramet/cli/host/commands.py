"""`ramet up`, `serve`, `worker` and `down`: the processes of one data directory."""

import importlib
import os
import resource
import signal
from pathlib import Path
from types import FrameType, ModuleType

import click

from ramet.cli.host import instance
from ramet.cli.ui.options import FILE, data_option, setting_option
from ramet.settings import Settings, load_settings, make_data_dir
from ramet.telemetry import start_logging


@click.command("up")
@data_option
@setting_option("host")
@setting_option("port")
@setting_option("endpoint_host")
@setting_option("port_range")
@setting_option("storage_driver")
@click.option("--credentials-file", type=FILE, help="Write server, project and key there once it is ready (0600).")
def up(data_dir: Path | None, credentials_file: Path | None, **arguments: str | None) -> None:
    """Run the whole of Ramet on this machine: HTTP, operations, servers. SIGTERM ends it; the databases go on.

    The first run makes a project and a key, and writes the key to your configuration. Everything else that can be
    set has a variable: see 'ramet settings'.

    \b
    Examples:
      ramet up
      ramet up --data /srv/ramet --port 0 --credentials-file ramet.json
    """
    settings = _begin(data_dir, **arguments)
    with instance.alone(settings.data_dir):
        _running().run_all(settings, credentials_file)


@click.command("serve")
@data_option
@setting_option("host")
@setting_option("port")
def serve_only(data_dir: Path | None, **arguments: str | None) -> None:
    """Answer HTTP only; operations are left to 'ramet worker'.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet serve --port 8080
    """
    settings = _begin(data_dir, **arguments)
    with instance.shared(settings.data_dir):
        _running().run_http(settings)


@click.command("worker")
@data_option
@setting_option("worker_threads")
def work_only(data_dir: Path | None, worker_threads: str | None) -> None:
    """Run operations and periodic duties only; HTTP is left to 'ramet serve'.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet worker
    """
    settings = _begin(data_dir, worker_threads=worker_threads)
    with instance.shared(settings.data_dir):
        _running().run_operations(settings)


@click.command("down")
@data_option
def down(data_dir: Path | None) -> None:
    """End 'ramet up' of a data directory, stop all its databases cleanly, and unmount its storage.

    \b
    Example:
      ramet down --data /srv/ramet
    """
    settings = load_settings(data_dir=data_dir)
    start_logging(settings.log_level)
    _running().end_all(settings)


def _begin(data_dir: Path | None, **arguments: str | None) -> Settings:
    settings = load_settings(data_dir=data_dir, **arguments)
    start_logging(settings.log_level)
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _leave)
    _allow_all_files()
    make_data_dir(settings.data_dir)
    return settings


def _allow_all_files() -> None:
    """Let this process open as many files as the host allows: each connection is one, and each server takes some."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _running() -> ModuleType:
    """Load the server, which takes a second: whoever must not have the data directory was told before."""
    return importlib.import_module("ramet.cli.host.running")


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End in order where a signal comes before there is anything to drain."""
    raise click.exceptions.Exit(0)
