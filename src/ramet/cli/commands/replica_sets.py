"""`ramet service replica`: list, create, resize, set-environment, delete."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import UNSET
from rich.text import Text

from ramet.api.schemas.replica_sets import ReadReplicaSet
from ramet.cli.ui.options import (
    ENVIRONMENT,
    credentials_option,
    find_service,
    open_client,
    output_option,
    service_argument,
)
from ramet.cli.ui.output import print_data, print_rows, say, status_text
from ramet.cli.ui.waiting import Patience, waiting_options
from ramet.client import Client
from ramet.endpoints import address
from ramet.errors import Invalid, NotFound
from ramet.model.service import Environment

_COLUMNS = ("set", "id", "status", "env", "nodes", "size of each", "endpoint", "pooler", "reason")
_set_argument = click.argument("replica_set")


@click.group("replica")
def replica_group() -> None:
    """Read replica sets: read-only copies of a service that follow it."""


@replica_group.command("list")
@service_argument
@output_option
@credentials_option
def list_sets(service: str, output: str, credentials_file: Path | None) -> None:
    """List the read replica sets of a service.

    \b
    Example:
      ramet service replica list shop
    """
    with open_client(credentials_file) as client:
        _print(client.list_replica_sets(find_service(client, service).service_id), output)


@replica_group.command("create")
@service_argument
@click.argument("name")
@click.option("--nodes", type=int, default=1, show_default=True, help="Equal servers behind one endpoint.")
@click.option("--cpu", default="500", show_default=True, help="Thousandths of a core of each node.")
@click.option("--memory", default="2", show_default=True, help="Gigabytes of each node.")
@waiting_options
@output_option
@credentials_option
def create(
    service: str,
    name: str,
    nodes: int,
    cpu: str,
    memory: str,
    patience: Patience,
    output: str,
    credentials_file: Path | None,
) -> None:
    """Make read-only copies of a service that follow it. They open with the passwords of the service.

    \b
    Examples:
      ramet service replica create shop reports
      ramet service replica create shop reports --nodes 2 --cpu 1000 --memory 4
      ramet db connect $(ramet service replica create shop reports -o json | jq -r '.[0].id')
    """
    with open_client(credentials_file) as client:
        parent = find_service(client, service)
        made = client.create_replica_set(parent.service_id, name, nodes=nodes, cpu_millis=cpu, memory_gbs=memory)
        patience.follow(client.wait_ready, made.id, f"Creating {name}", f"{name} follows {parent.name}")
        _print([one for one in client.list_replica_sets(parent.service_id) if one.id == made.id], output)


@replica_group.command("resize")
@service_argument
@_set_argument
@click.option("--cpu", required=True, help="Thousandths of a core of each node.")
@click.option("--memory", required=True, help="Gigabytes of each node.")
@waiting_options
@credentials_option
def resize(
    service: str,
    replica_set: str,
    cpu: str,
    memory: str,
    patience: Patience,
    credentials_file: Path | None,
) -> None:
    """Give every node of a set another size; they restart for a moment.

    \b
    Example:
      ramet service replica resize shop reports --cpu 1000 --memory 4
    """
    with open_client(credentials_file) as client:
        parent_id, found = _find(client, service, replica_set)
        client.resize_replica_set(parent_id, found.id, cpu, memory)
        patience.follow(client.wait_ready, found.id, f"Resizing {found.name}", f"{found.name} has its new size")


@replica_group.command("set-environment")
@service_argument
@_set_argument
@click.argument("environment", type=ENVIRONMENT)
@credentials_option
def set_environment(service: str, replica_set: str, environment: str, credentials_file: Path | None) -> None:
    """Say how much is at stake in a set: DEV or PROD.

    \b
    Example:
      ramet service replica set-environment shop reports PROD
    """
    with open_client(credentials_file) as client:
        parent_id, found = _find(client, service, replica_set)
        client.set_replica_environment(parent_id, found.id, Environment(environment.upper()))
    say(f"{found.name} is a {environment.upper()} set now.", "green")


@replica_group.command("delete")
@service_argument
@_set_argument
@waiting_options
@credentials_option
def delete(service: str, replica_set: str, patience: Patience, credentials_file: Path | None) -> None:
    """Delete a set. The service is not touched, and no data is lost.

    \b
    Example:
      ramet service replica delete shop reports
    """
    with open_client(credentials_file) as client:
        parent_id, found = _find(client, service, replica_set)
        client.delete_replica_set(parent_id, found.id)
        patience.follow(client.wait_deleted, found.id, f"Deleting {found.name}", f"{found.name} is gone")


def _find(client: Client, service: str, replica_set: str) -> tuple[str, ReadReplicaSet]:
    """Return the id of a service, and its set with that id or name."""
    parent = find_service(client, service)
    found = [one for one in client.list_replica_sets(parent.service_id) if replica_set in (one.id, one.name)]
    if not found:
        raise NotFound(
            "REPLICA_SET_NOT_FOUND",
            f"{parent.name} has no read replica set with the id or the name {replica_set!r}",
            "See 'ramet service replica list'.",
        )
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise Invalid("AMBIGUOUS_NAME", f"{len(found)} sets are named {replica_set!r}", f"Give an id: {ids}.")
    return parent.service_id, found[0]


def _print(sets: Sequence[ReadReplicaSet], output: str) -> None:
    if output != "table":
        print_data(sets, output)
        return
    print_rows(_COLUMNS, [_row(one) for one in sets])


def _row(one: ReadReplicaSet) -> list[str | Text]:
    pooler = "-" if one.connection_pooler is None else str(one.connection_pooler.endpoint.port)
    reason = one.metadata.status_reason
    return [
        one.name,
        one.id,
        status_text(one.status),
        str(one.metadata.environment),
        str(one.nodes),
        f"{one.cpu_millis / 1000:g} cpu / {one.memory_gbs} GB",
        address(one.endpoint.host, one.endpoint.port),
        pooler,
        "" if reason is UNSET else str(reason),
    ]
