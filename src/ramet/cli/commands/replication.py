"""`ramet service`: set-wal-level, replication."""

import click

from ramet.api.schemas.replication import Replication
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import shown_mib
from ramet.cli.ui.options import WAL_LEVEL, output_option, service_command
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.cli.ui.service_views import print_service
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.client import Client
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel

_MIB = 1024**2
_NO_SLOTS = "It has no replication slots."
_COLUMNS = ("slot", "database", "plugin", "active", "wal status", "retains")


@service_command("set-wal-level")
@click.argument("wal_level", type=WAL_LEVEL)
@outcome_options
def set_wal_level(client: Client, service: Service, wal_level: WalLevel, waiting: Waiting, output: str) -> None:
    """Set the wal_level of a service: logical for publications, else replica. The server restarts.

    A paused service is resumed. To go back to replica, drop all replication slots first.

    \b
    Examples:
      ramet service set-wal-level shop logical
      ramet service set-wal-level shop replica
    """
    changed, name = client.set_wal_level(service.service_id, wal_level), service.name
    doing, done = f"Setting wal_level of {name}", f"wal_level of {name} is {wal_level}"
    print_service(waiting.follow(client.wait_ready, service.service_id, doing, done) or changed, output)


@service_command("replication")
@output_option
def show_replication(client: Client, service: Service, output: str) -> None:
    """Show the wal_level of a service, and how much WAL its replication slots retain.

    \b
    Example:
      ramet service replication shop
    """
    found = client.get_replication(service.service_id)
    print_result(found, output, lambda: _print(service, found))


def _print(service: Service, found: Replication) -> None:
    say(f"wal_level of {service.name} is {found.wal_level}.")
    if not found.slots:
        is_paused = service.status is Status.PAUSED
        say("Its replication slots may not be shown until it is resumed." if is_paused else _NO_SLOTS)
        return
    print_rows(_COLUMNS, [_row(found, number) for number in range(len(found.slots))])
    if found.slot_limit_bytes is not None:
        limit = found.slot_limit_bytes // _MIB
        say(f"A slot that retains more than {limit} MiB is lost: its subscriber has to copy all data again.")


def _row(found: Replication, number: int) -> list[str]:
    slot = found.slots[number]
    retained = "-" if slot.retained_bytes is None else shown_mib(slot.retained_bytes)
    known = (slot.database or "-", slot.plugin or "-", "yes" if slot.active else "no", slot.wal_status or "-")
    return [slot.name, *known, retained]
