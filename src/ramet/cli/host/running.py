"""What `ramet up`, `serve` and `worker` do with a data directory that they have locked."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from ramet.acting import acting, on_host
from ramet.app import Runtime
from ramet.cli.host import instance
from ramet.cli.host.bootstrap_credentials import ensure_credentials, ensure_user_credentials
from ramet.cli.host.probes import answer_probes
from ramet.cli.host.serving import certificate_of, listen, serve
from ramet.cli.ui.output import say
from ramet.cli.user_files.credentials import config_path, read_credentials
from ramet.configured import authority_of, replace_expired_authority
from ramet.console.application import PATH as CONSOLE_PATH
from ramet.control.addresses import planned_moves
from ramet.control.readiness import check_ready
from ramet.endpoints import BASE_PATH, base_url, is_loopback
from ramet.errors import Error
from ramet.model.restore_window import copies_all_data
from ramet.settings import Settings

_HOW_TO_STOP = {"local": " 'ramet down' stops them.", "kubernetes": ""}
_log = logging.getLogger(__name__)


def run_all(settings: Settings, credentials_file: Path | None) -> None:
    """Serve HTTP and run operations until a signal ends them. The caller has locked the data directory exclusively."""
    replace_expired_authority(settings)
    certificate = certificate_of(settings)
    with ExitStack() as stack:
        listening = stack.enter_context(listen(settings.host, settings.port))
        runtime = stack.enter_context(closing(Runtime.open(settings)))
        address = base_url(settings.host, listening.getsockname()[1], tls=certificate is not None)
        authority = _authority_of(settings)

        def on_ready() -> None:
            instance.announce(settings.data_dir, address, authority, settings.endpoint_host)
            with acting(on_host("ramet up")):
                given = None
                if credentials_file is not None:
                    given = ensure_credentials(runtime.projects, address, credentials_file, authority)
                ensure_user_credentials(runtime.projects, address, given, authority)
            _announce(settings, runtime, address, credentials_file or config_path())

        runtime.start(alone=True)
        stack.callback(runtime.stop)
        serve(runtime, listening, on_ready, certificate)
        say("Ramet has stopped; its databases are still running." + _HOW_TO_STOP[settings.backend])


def run_http(settings: Settings) -> None:
    """Serve HTTP until a signal ends it. The caller has a shared lock on the data directory."""
    replace_expired_authority(settings)
    certificate = certificate_of(settings)
    with closing(Runtime.open(settings)) as runtime, listen(settings.host, settings.port) as socket:
        address = base_url(settings.host, socket.getsockname()[1], tls=certificate is not None)
        serve(runtime, socket, lambda: say(f"HTTP is served at {address}"), certificate)


def run_operations(settings: Settings) -> None:
    """Run operations and duties until a signal ends them. The caller has a shared lock on the data directory."""
    replace_expired_authority(settings)
    with closing(Runtime.open(settings)) as runtime, _probed(settings, runtime), _working(settings, runtime) as alone:
        runtime.start(alone=alone)
        say("Ramet runs operations.")
        _wait_for_signal()
        runtime.stop()


@contextmanager
def _working(settings: Settings, runtime: Runtime) -> Iterator[bool]:
    """Be known as the process that runs the operations, and over SQLite as the only one; yield whether it is that."""
    alone = not runtime.store.is_postgresql
    with instance.working(settings.data_dir, alone=alone):
        yield alone


@contextmanager
def _probed(settings: Settings, runtime: Runtime) -> Iterator[None]:
    if settings.probe_port is None:
        yield
        return
    with (
        listen(settings.host, settings.probe_port) as listening,
        answer_probes(listening, partial(check_ready, runtime.plane), runtime.scrape(has_services=False)),
    ):
        yield


def _wait_for_signal() -> None:
    received = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: received.set())
    received.wait()


def _announce(settings: Settings, runtime: Runtime, address: str, credentials: Path) -> None:
    say(f"Ramet is ready at {address}", "bold green")
    say(f"  console    {address.removesuffix(BASE_PATH)}{_console_link(runtime, credentials)}")
    say(f"  data       {settings.data_dir}, storage {runtime.backend.host.volume_type()}")
    if copies_all_data(runtime.backend.host.volume_type()):
        say("  space      a fork takes as much as its parent's data, a snapshot a tenth to a half of it", "dim")
    say("  next       ramet service create shop", "dim")
    if not is_loopback(settings.host) and not settings.tls_cert:
        message = "HTTP listens on %s without TLS: set RAMET_TLS_CERT, or put a TLS proxy in front of it"
        _log.warning(message, settings.host)
    if settings.backend == "kubernetes":
        return
    if elsewhere := planned_moves(runtime.store, settings.endpoint_host, runtime.backend.host.has_tls):
        _log.warning(
            "%d services do not announce %s, as new ones do: see 'ramet host set-address' and RAMET_ENDPOINT_HOST",
            len(elsewhere),
            settings.endpoint_host,
        )


def _authority_of(settings: Settings) -> str:
    """Return the certificate that clients verify HTTP with, as PEM; "" where the host's own authorities do."""
    return authority_of(settings).pem if settings.tls_cert == "auto" else ""


def _console_link(runtime: Runtime, credentials: Path) -> str:
    """Return the path of a link that signs in once with the key in a file, or of the sign-in page if that fails.

    Where nobody looks, what is printed is kept in a journal, which others may read.
    """
    if not sys.stderr.isatty():
        return CONSOLE_PATH
    try:
        kept = read_credentials(credentials) if credentials.is_file() else None  # reading a pipe waits without end
        if kept is None:
            return CONSOLE_PATH
        return runtime.console.make_link(kept.public_key)
    except (Error, OSError):
        return CONSOLE_PATH
