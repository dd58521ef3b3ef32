"""`ramet service pooler`: enable and disable."""

import click

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string
from ramet.cli.ui.options import parent_of_replica, with_service
from ramet.cli.ui.output import say
from ramet.client import Client


@click.group("pooler")
def pooler_group() -> None:
    """Enable or disable the pooler. It is PgBouncer, with session and transaction pools."""


@pooler_group.command("enable")
@with_service
def enable(client: Client, service: Service) -> None:
    """Enable the pooler of a service, or of a read replica set by its id, and print its connection string.

    Database tsdb is the session pool, tsdb_transaction the transaction pool. The pooler accepts the passwords of the
    service. A pooler that was disabled before gets its port again if it is still free.

    \b
    Example:
      ramet service pooler enable shop
    """
    parent, service_id = parent_of_replica(service), service.service_id
    message = client.enable_replica_pooler(parent, service_id) if parent else client.enable_pooler(service_id)
    pooler = client.get_service(service_id).connection_pooler
    say(message, "green")
    if pooler is not None:
        click.echo(connection_string(pooler.endpoint))


@pooler_group.command("disable")
@with_service
def disable(client: Client, service: Service) -> None:
    """Disable the pooler of a service, or of a read replica set by its id. This ends all sessions of the pooler.

    \b
    Example:
      ramet service pooler disable shop
    """
    parent, service_id = parent_of_replica(service), service.service_id
    say(client.disable_replica_pooler(parent, service_id) if parent else client.disable_pooler(service_id), "green")
