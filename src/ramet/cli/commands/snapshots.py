"""`ramet snapshot`: snapshots that are taken by hand, and kept until they are deleted."""

import click

from ramet.api.schemas.restore import Snapshot
from ramet.api.schemas.services import Service
from ramet.cli.commands.restore import list_snapshots
from ramet.cli.ui.options import find_named, with_service
from ramet.cli.ui.output import print_pairs, print_result, say
from ramet.cli.ui.waiting import Waiting, continuing, outcome_options
from ramet.client import Client
from ramet.errors import Invalid


@click.group("snapshot")
def snapshot_group() -> None:
    """Take, list and delete snapshots of a service by hand. They are kept until they are deleted."""


@snapshot_group.command("create")
@with_service
@click.argument("name")
@outcome_options
def create_snapshot(client: Client, service: Service, name: str, waiting: Waiting, output: str) -> None:
    """Take a snapshot, and wait until it can be forked with 'ramet service fork --snapshot NAME'.

    The name must not be that of another snapshot of the service.

    \b
    Example:
      ramet snapshot create shop before-the-migration
    """
    if any(one.name == name for one in client.list_snapshots(service.service_id)):
        raise Invalid(
            "NAME_TAKEN",
            f"{service.name} has a snapshot named {name!r}",
            "Choose another name, or delete that one with 'ramet snapshot delete'.",
        )
    taken = client.take_snapshot(service.service_id, name)
    if waiting.seconds is not None:
        with continuing(f"Taking snapshot {name}", f"ramet service snapshots {service.service_id}"):
            taken = client.wait_snapshot(service.service_id, taken.id, waiting.seconds)
        say(f"Snapshot {name} of {service.name} is taken.", "green")
    print_result(taken, output, lambda: print_pairs(_pairs(taken)))


snapshot_group.add_command(list_snapshots, "list")


@snapshot_group.command("delete")
@with_service
@click.argument("snapshot")
def delete_snapshot(client: Client, service: Service, snapshot: str) -> None:
    """Delete a snapshot that was taken by hand, by its name or its id. Forks of it are not affected.

    \b
    Example:
      ramet snapshot delete shop before-the-migration
    """
    remedy = f"See 'ramet snapshot list {service.name}'."
    found = find_named(client.list_snapshots(service.service_id), snapshot, "snapshot", remedy)
    client.delete_snapshot(service.service_id, found.id)
    say(f"Snapshot {snapshot} is being deleted.")


def _pairs(taken: Snapshot) -> list[tuple[str, str]]:
    return [("id", taken.id), ("name", taken.name or ""), ("status", taken.status)]
