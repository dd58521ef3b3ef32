"""`ramet host set-address`: the endpoints of services that exist get another host."""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import click

from ramet.acting import acting, on_host
from ramet.cli.host import instance
from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.asking import answered
from ramet.cli.ui.options import data_option, output_option
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.configured import open_store
from ramet.control.addresses import Move, pending_moves, planned_moves, request_moves, unmoved
from ramet.errors import Invalid
from ramet.machine.installation import find_installations
from ramet.setting_kinds import read_host
from ramet.settings import Settings
from ramet.store.database import Store

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - a wildcard is no address of anything
_LOOK_SECONDS = 0.2
_COLUMNS = ("service", "name", "from", "to", "restart")


@click.group("host")
def host_group() -> None:
    """Change what the services on this host have in common. This works on the host of the data directory only."""


@host_group.command("set-address")
@click.argument("address")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until all services have it.  [default: --wait]")
@output_option
@data_option
def set_address(address: str, dry_run: bool, yes: bool, waits: bool, output: str, data_dir: Path | None) -> int:
    """Give the endpoints of all services another host: a name or an address that leads to this machine.

    Their certificates become valid for it, and stay valid for the last three before. Servers serve on, unless they
    have to listen elsewhere: between localhost and any other host they restart, each in an operation of its own. New
    services get RAMET_ENDPOINT_HOST: set that, too.

    \b
    Examples:
      ramet host set-address db.example.com --dry-run
      ramet host set-address db.example.com
    """
    settings, wanted = existing_data_dir(data_dir), _checked(address)
    has_tls = _tls_by_major(settings)
    with (
        closing(open_store(settings, migrates=False)) as store,
        acting(on_host("ramet host set-address", address=wanted)),
    ):
        moves = planned_moves(store, wanted, has_tls)
        print_result([_shown(one) for one in moves], output, lambda: print_rows(_COLUMNS, _rows(moves)))
        if dry_run:
            return 0
        _remind(settings, wanted)
        if not moves:
            say(f"All services announce {wanted} already, or have no TLS and stay on this host.")
            return 0
        restarts = sum(one.restarts for one in moves)
        with answered("use --yes."):
            agrees = yes or click.confirm(f"Change {len(moves)} services, of which {restarts} restart?", err=True)
        if not agrees:
            say("Nothing was changed.")
            return 1
        request_moves(store, moves)
        return _wait(settings, store, moves) if waits else 0


def _tls_by_major(settings: Settings) -> Callable[[int], bool]:
    """Return what tells whether servers of a version of PostgreSQL have TLS. Raises Invalid where that does not count.

    As the backend says it: a version that is gone counts as if it had.
    """
    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "On Kubernetes the cluster decides at which address a service is reached",
            "RAMET_KUBERNETES_ENDPOINTS says how.",
        )
    known = find_installations().by_major
    return lambda major: major not in known or known[major].has_tls


def _checked(address: str) -> str:
    try:
        host = read_host(address)
    except ValueError as error:
        raise Invalid("INVALID_ADDRESS", f"ADDRESS must be a host name or an address (got {address[:80]!r})") from error
    if host in _WILDCARDS:
        raise Invalid("INVALID_ADDRESS", f"{host} is no address that clients can connect to", "Name this host.")
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        say(f"{host} cannot be resolved on this host now; clients need that it can.", "yellow")
    return host


def _wait(settings: Settings, store: Store, moves: Sequence[Move]) -> int:
    """Wait until no service is to be changed any more; return 1 if some have not got their host."""
    while left := pending_moves(store):
        if not instance.has_worker(settings.data_dir):
            say(f"{left} services are changed when Ramet runs: 'ramet up'.")
            return 0
        time.sleep(_LOOK_SECONDS)
    failed = unmoved(store, moves)
    for one in failed:
        say(f"{one.name} ({one.id}) keeps {one.host}: {one.down_reason or 'see its operations'}", "red")
    say(f"{len(moves) - len(failed)} services have their address.", "green")
    return 1 if failed else 0


def _remind(settings: Settings, wanted: str) -> None:
    found = instance.running(settings.data_dir)
    in_force = settings.endpoint_host if found is None else found.endpoint_host
    if in_force != wanted:
        say(f"New services get {in_force}: set RAMET_ENDPOINT_HOST={wanted} for Ramet, and start it again.", "yellow")


def _rows(moves: Sequence[Move]) -> Sequence[Sequence[str]]:
    return [
        (one.service.id, one.service.name, one.service.host, one.host, "yes" if one.restarts else "no") for one in moves
    ]


def _shown(move: Move) -> dict[str, object]:
    one = move.service
    return {
        "service_id": one.id,
        "name": one.name,
        "project_id": one.project_id,
        "from": one.host,
        "to": move.host,
        "restarts": move.restarts,
    }
