"""`ramet run`: a command with a fork of its own."""

import logging
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from ramet.cli.commands.restore_points import ChosenPoint, restore_point_options
from ramet.cli.connection import libpq_environ
from ramet.cli.ui.durations import Duration, shown_duration
from ramet.cli.ui.keeping import whole
from ramet.cli.ui.options import complete_service, find_parent, with_client
from ramet.cli.ui.output import say
from ramet.client import ApiError, Client
from ramet.errors import NotFound
from ramet.kits.throwaway import OUTLIVES_SECONDS, throwaway_fork

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
_KILLED = 128


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--fork", "parent", required=True, metavar="SERVICE", shell_complete=complete_service, help="The parent.")
@restore_point_options(deleted=False)
@click.option("--max-age", type=Duration(), help="Be content with a fork that is ready and so old, such as 10m.")
@click.option(
    "--outlives",
    type=Duration(),
    default=f"{OUTLIVES_SECONDS}s",
    show_default=True,
    help="How long the fork is kept when this command is killed and cannot delete it.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@with_client
def run(
    client: Client,
    parent: str,
    point: ChosenPoint,
    max_age: float | None,
    outlives: float,
    command: tuple[str, ...],
) -> int:
    """Run a command with a fork of its own, and delete the fork when the command ends.

    The command finds the fork by DATABASE_URL, PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE. Your
    PGSERVICE, PGSERVICEFILE, PGHOSTADDR and PGPASSFILE are not passed on: they could lead it elsewhere. The exit code
    is that of the command. When 'ramet run' itself is killed, the fork expires.

    \b
    Examples:
      ramet run --fork shop -- npm test
      ramet run --fork shop --to 10m -- psql -c 'SELECT count(*) FROM orders'
      ramet run --fork shop --last-snapshot -- sh -c 'migrate up && pytest'
    """
    begun, service = time.monotonic(), find_parent(client, parent)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    labels, seconds = {"run-by": socket.gethostname()[:63]}, round(outlives)
    chosen = {**point.fields(), "max_age_seconds": whole(max_age)}
    with (
        interruptible(),
        _named_as_here(),
        throwaway_fork(client, service, point.strategy, labels=labels, outlives_seconds=seconds, **chosen) as fork,
    ):
        say(f"{fork.service.name} is READY after {shown_duration(time.monotonic() - begun)}.", "green")
        return _run(command, libpq_environ(fork.variables))


@contextmanager
def _named_as_here() -> Iterator[None]:
    """Name --outlives where Ramet refuses the life span of the fork: this command has no --ttl."""
    try:
        yield
    except ApiError as error:
        said = (re.sub(r"\bttl_seconds\b", "--outlives", text) for text in (error.message, error.details))
        raise ApiError(error.status, error.code, *said) from error


@contextmanager
def interruptible() -> Iterator[None]:
    """Make a request to end this process an exception, so that the fork is deleted before it ends."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(_KILLED + number)

    with _handling(dict.fromkeys(_FORWARDED, end)):
        yield


@contextmanager
def _handling(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Handle signals until the end of the block, except those that are ignored, as SIGHUP under nohup.

    The command ignores these as well, as it would without `ramet run`.
    """
    handled = {number: one for number, one in handlers.items() if signal.getsignal(number) is not signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handled.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command to its end, pass signals on to it, and return its exit code as a shell does."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    # A terminal sends an interrupt to the child as well: here it only has to be survived.
    with _handling({**dict.fromkeys(_FORWARDED, forward), signal.SIGINT: lambda *_: None}):
        try:
            child = subprocess.Popen(command, env=environ)
        except OSError as error:
            raise NotFound(
                "COMMAND_NOT_STARTED", f"{command[0]!r} cannot be started: {error.strerror}", "Check its name and PATH."
            ) from error
        for number in early:
            child.send_signal(number)
        code = child.wait()
    return code if code >= 0 else _KILLED - code
