"""`ramet service replica`: list, create, resize, set-environment and delete read replica sets."""

from collections.abc import Sequence

import click
from rich.text import Text

from ramet.api.schemas.replica_sets import ReadReplicaSet
from ramet.api.schemas.services import Service
from ramet.cli.ui.options import ENVIRONMENT, find_named, output_option, with_service
from ramet.cli.ui.output import print_result, print_rows, say, status_text
from ramet.cli.ui.waiting import Waiting, outcome_options, waiting_options
from ramet.client import Client
from ramet.endpoints import address
from ramet.model.environment import Environment

_COLUMNS = ("set", "id", "status", "env", "nodes", "size of each", "endpoint", "pooler", "reason")
_set_argument = click.argument("replica_set")


@click.group("replica")
def replica_group() -> None:
    """Manage read replica sets. They are standbys of a service that answer read-only queries."""


@replica_group.command("list")
@with_service
@output_option
def list_sets(client: Client, service: Service, output: str) -> None:
    """List the read replica sets of a service.

    \b
    Example:
      ramet service replica list shop
    """
    _print(client.list_replica_sets(service.service_id), output)


@replica_group.command("create")
@with_service
@click.argument("name")
@click.option("--nodes", type=int, default=1, show_default=True, help="Number of standbys behind the endpoint.")
@click.option("--cpu", default="500", show_default=True, help="Thousandths of a core of each node.")
@click.option("--memory", default="2", show_default=True, help="Gigabytes of each node.")
@outcome_options
def create(
    client: Client, service: Service, name: str, nodes: int, cpu: str, memory: str, waiting: Waiting, output: str
) -> None:
    """Create a read replica set of a service. It accepts the passwords of the service.

    \b
    Examples:
      ramet service replica create shop reports
      ramet service replica create shop reports --nodes 2 --cpu 1000 --memory 4
      ramet db connect $(ramet service replica create shop reports -o json | jq -r '.[0].id')
    """
    made = client.create_replica_set(service.service_id, name, nodes=nodes, cpu_millis=cpu, memory_gbs=memory)
    waiting.follow(client.wait_ready, made.id, f"Creating {name}", f"{name} is READY")
    _print([one for one in client.list_replica_sets(service.service_id) if one.id == made.id], output)


@replica_group.command("resize")
@with_service
@_set_argument
@click.option("--cpu", required=True, help="Thousandths of a core of each node.")
@click.option("--memory", required=True, help="Gigabytes of each node.")
@waiting_options
def resize(client: Client, service: Service, replica_set: str, cpu: str, memory: str, waiting: Waiting) -> None:
    """Change the CPU and memory of every node. The nodes of the set restart.

    \b
    Example:
      ramet service replica resize shop reports --cpu 1000 --memory 4
    """
    found = _find(client, service, replica_set)
    client.resize_replica_set(service.service_id, found.id, cpu, memory)
    waiting.follow(client.wait_ready, found.id, f"Resizing {found.name}", f"{found.name} is resized")


@replica_group.command("set-environment")
@with_service
@_set_argument
@click.argument("environment", type=ENVIRONMENT)
def set_environment(client: Client, service: Service, replica_set: str, environment: Environment) -> None:
    """Set the environment of a read replica set: PROD or DEV.

    \b
    Example:
      ramet service replica set-environment shop reports PROD
    """
    found = _find(client, service, replica_set)
    client.set_replica_environment(service.service_id, found.id, environment)
    say(f"{found.name} is now a {environment} replica set.", "green")


@replica_group.command("delete")
@with_service
@_set_argument
@waiting_options
def delete(client: Client, service: Service, replica_set: str, waiting: Waiting) -> None:
    """Delete a read replica set. The service and its data are not affected.

    \b
    Example:
      ramet service replica delete shop reports
    """
    found = _find(client, service, replica_set)
    client.delete_replica_set(service.service_id, found.id)
    waiting.follow(client.wait_deleted, found.id, f"Deleting {found.name}", f"{found.name} is deleted")


def _find(client: Client, service: Service, replica_set: str) -> ReadReplicaSet:
    known = client.list_replica_sets(service.service_id)
    remedy = f"See 'ramet service replica list {service.service_id}'."
    return find_named(known, replica_set, "replica set", remedy)


def _print(sets: Sequence[ReadReplicaSet], output: str) -> None:
    print_result(sets, output, lambda: print_rows(_COLUMNS, [_row(one) for one in sets]))


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
        "" if reason is None else str(reason),
    ]
