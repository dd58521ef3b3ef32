"""`ramet up`, `serve`, `worker` and `down`: the processes of one data directory."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import click

from ramet.api.application import BASE_PATH
from ramet.app import Runtime, has_storage, local_backend, make_data_dir
from ramet.cli import instance
from ramet.cli.connection import is_loopback
from ramet.cli.credentials import config_path, read_credentials
from ramet.cli.first_key import ensure_credentials, ensure_user_credentials
from ramet.cli.options import FILE, data_option
from ramet.cli.output import say
from ramet.cli.serving import base_url, listen, serve
from ramet.console.application import PATH as CONSOLE_PATH
from ramet.errors import Error, NotFound
from ramet.settings import Settings, load_settings
from ramet.telemetry import start_logging

_END_SECONDS = 60.0
_log = logging.getLogger(__name__)


@click.command("up")
@data_option
@click.option("--host", help="The address that HTTP listens on.  [default: 127.0.0.1]")
@click.option("--port", help="The port of HTTP; 0 picks a free one.  [default: 8080]")
@click.option("--endpoint-host", help="The host that services tell their clients.  [default: localhost]")
@click.option("--port-range", help="The ports for services.  [default: 15432-16431]")
@click.option("--storage-driver", help="auto, reflink, btrfs or copy; for a new data directory.  [default: auto]")
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
    with ExitStack() as stack:
        stack.enter_context(instance.alone(settings.data_dir))
        listening = stack.enter_context(listen(settings.host, settings.port))
        runtime = stack.enter_context(_open(settings))
        address = base_url(listening, settings.host)

        def on_ready() -> None:
            instance.announce(settings.data_dir, address)
            if credentials_file is not None:
                ensure_credentials(runtime.projects, address, credentials_file)
            ensure_user_credentials(runtime.projects, address, given=credentials_file)
            _tell(settings, runtime, address, credentials_file or config_path())

        runtime.start(alone=True)
        stack.callback(runtime.stop)
        serve(runtime, listening, on_ready)
        say("Ramet has ended; its databases go on. 'ramet down' stops them.")


@click.command("serve")
@data_option
@click.option("--host", help="The address that HTTP listens on.  [default: 127.0.0.1]")
@click.option("--port", help="The port of HTTP; 0 picks a free one.  [default: 8080]")
def serve_only(data_dir: Path | None, **arguments: str | None) -> None:
    """Answer HTTP only; operations are left to 'ramet worker'.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet serve --port 8080
    """
    settings = _begin(data_dir, **arguments)
    with instance.shared(settings.data_dir), _open(settings) as runtime, listen(settings.host, settings.port) as socket:
        address = base_url(socket, settings.host)
        serve(runtime, socket, lambda: say(f"HTTP is served at {address}"))


@click.command("worker")
@data_option
@click.option("--worker-threads", help="How many operations run at once.  [default: 8]")
def work_only(data_dir: Path | None, worker_threads: str | None) -> None:
    """Run operations and periodic duties only; HTTP is left to 'ramet serve'.

    \b
    Example:
      RAMET_DATABASE_URL=postgresql+psycopg://ramet@db/ramet ramet worker
    """
    settings = _begin(data_dir, worker_threads=worker_threads)
    with instance.shared(settings.data_dir), _open(settings) as runtime:
        runtime.start()
        say("Operations are run here.")
        _wait_for_signal()
        runtime.stop()


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
    if not has_storage(settings):
        raise NotFound("NO_DATA_DIR", f"{settings.data_dir} is no data directory of Ramet.", "Name one with --data.")
    ended = instance.end(settings.data_dir, _END_SECONDS)
    if ended is not None:
        say(f"ramet up (pid {ended.process.pid}) has ended.")
    with instance.alone(settings.data_dir):
        backend = local_backend(settings)
        backend.stop_all()
        backend.close()
    say(f"All databases of {settings.data_dir} are stopped. 'ramet up' starts them again.")


def _begin(data_dir: Path | None, **arguments: str | None) -> Settings:
    settings = load_settings(data_dir=data_dir, **arguments)
    start_logging(settings.log_level)
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _leave)
    make_data_dir(settings.data_dir)
    return settings


@contextmanager
def _open(settings: Settings) -> Iterator[Runtime]:
    runtime = Runtime.open(settings)
    try:
        yield runtime
    finally:
        runtime.close()


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End in order where a signal comes before there is anything to drain."""
    raise click.exceptions.Exit(0)


def _wait_for_signal() -> None:
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    told.wait()


def _tell(settings: Settings, runtime: Runtime, address: str, credentials: Path) -> None:
    say(f"Ramet is ready at {address}", "bold green")
    say(f"  console    {address.removesuffix(BASE_PATH)}{_console_link(runtime, credentials)}")
    say(f"  data       {settings.data_dir}, storage {runtime.backend.volume_type()}")
    say("  next       ramet service create shop", "dim")
    if not is_loopback(settings.host):
        _log.warning("HTTP listens on %s without TLS: put a TLS proxy before it", settings.host)


def _console_link(runtime: Runtime, credentials: Path) -> str:
    """Return the path of a link that signs in once with the key kept in a file; of the sign-in page when it cannot."""
    try:
        kept = read_credentials(credentials)
        if kept is None:
            return CONSOLE_PATH
        return runtime.console.make_link(runtime.projects.active_key(kept.public_key).public_key)
    except Error:
        return CONSOLE_PATH
