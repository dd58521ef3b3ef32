"""`ramet service pooler`: enable and disable."""

from pathlib import Path

import click

from ramet.cli.connection import connection_string
from ramet.cli.ui.options import credentials_option, find_service, open_client, service_argument
from ramet.cli.ui.output import say


@click.group("pooler")
def pooler_group() -> None:
    """Give a service a pooler (PgBouncer), or take it away."""


@pooler_group.command("enable")
@service_argument
@credentials_option
def enable(service: str, credentials_file: Path | None) -> None:
    """Enable the pooler of a service, or of a read replica set by its id, and print its connection string.

    Database tsdb is the session pool, tsdb_transaction the transaction pool. Passwords are those of the service. One
    that was disabled comes back at its port, if nothing took that meanwhile.

    \b
    Example:
      ramet service pooler enable shop
    """
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        if found.forked_from is not None and found.forked_from.is_standby:
            told = client.enable_replica_pooler(found.forked_from.service_id, found.service_id)
        else:
            told = client.enable_pooler(found.service_id)
        pooler = client.get_service(found.service_id).connection_pooler
    say(told, "green")
    if pooler is not None:
        click.echo(connection_string(pooler.endpoint))


@pooler_group.command("disable")
@service_argument
@credentials_option
def disable(service: str, credentials_file: Path | None) -> None:
    """Disable the pooler of a service, or of a read replica set by its id. The sessions of its clients end.

    \b
    Example:
      ramet service pooler disable shop
    """
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        if found.forked_from is not None and found.forked_from.is_standby:
            client.disable_replica_pooler(found.forked_from.service_id, found.service_id)
        else:
            client.disable_pooler(found.service_id)
    say(f"{found.name} has no pooler.", "green")
