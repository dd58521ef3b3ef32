"""`ramet up`, `serve`, `worker` and `down`: the processes of one data directory."""

import importlib
import os
import resource
import signal
from pathlib import Path
from types import FrameType, ModuleType

import click

from ramet.cli.connection import LEADS_ELSEWHERE
from ramet.cli.host import instance
from ramet.cli.host.ending import end_all
from ramet.cli.host.options import setting_option
from ramet.cli.ui.options import FILE, data_option
from ramet.settings import Settings, load_settings, make_data_dir
from ramet.telemetry import start_logging


@click.command("up")
@data_option
@setting_option("host")
@setting_option("port")
@setting_option("endpoint_host")
@setting_option("port_range")
@setting_option("storage_driver")
@click.option(
    "--credentials-file", type=FILE, help="When ready, write server, project and key to this file, with mode 0600."
)
def up(data_dir: Path | None, credentials_file: Path | None, **arguments: str | None) -> None:
    """Run Ramet on this host. SIGTERM stops HTTP and operations, but not the databases.

    The first run creates a project and a key, and writes the key to your configuration. A key of another Ramet that is
    there is kept beside it, as credentials-KEY.json, until that one is started again. All other settings are
    environment variables: see 'ramet settings'.

    \b
    Examples:
      ramet up
      ramet up --data /srv/ramet --port 0 --credentials-file ramet.json
    """
    settings = begin(data_dir, **arguments)
    with instance.alone(settings.data_dir):
        _running().run_all(settings, credentials_file)


@click.command("serve")
@data_option
@setting_option("host")
@setting_option("port")
def serve_only(data_dir: Path | None, **arguments: str | None) -> None:
    """Serve HTTP only. 'ramet worker' runs the operations.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet serve --port 8080
    """
    settings = begin(data_dir, **arguments)
    with instance.shared(settings.data_dir):
        _running().run_http(settings)


@click.command("worker")
@data_option
@setting_option("worker_threads")
def work_only(data_dir: Path | None, worker_threads: str | None) -> None:
    """Run operations and duties only. 'ramet serve' serves HTTP.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet worker
    """
    settings = begin(data_dir, worker_threads=worker_threads)
    with instance.shared(settings.data_dir):
        _running().run_operations(settings)


@click.command("down")
@data_option
def down(data_dir: Path | None) -> None:
    """Stop Ramet and all its databases. This stops 'ramet up', shuts down the databases and unmounts the storage.

    On Kubernetes it stops 'ramet up' only.

    \b
    Example:
      ramet down --data /srv/ramet
    """
    start_logging(load_settings(data_dir=data_dir).log_level)
    end_all(data_dir)


def begin(data_dir: Path | None, **arguments: str | None) -> Settings:
    """Return the settings, and prepare this process and the data directory for them."""
    settings = load_settings(data_dir=data_dir, **arguments)
    start_logging(settings.log_level)
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _exit)
    _allow_all_files()
    for variable in LEADS_ELSEWHERE:  # the platform's sessions would go there
        os.environ.pop(variable, None)
    make_data_dir(settings.data_dir)
    return settings


def _allow_all_files() -> None:
    """Raise the limit of open files: each connection is one, and each server needs some."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _running() -> ModuleType:
    """Import the server, which takes a second, only after the data directory is locked."""
    return importlib.import_module("ramet.cli.host.running")


def _exit(_number: int, _frame: FrameType | None) -> None:
    """Exit in order if a signal comes before there are requests or operations to finish."""
    raise SystemExit(0)  # not click's Exit: that is an Exception, which a duty logs and survives
