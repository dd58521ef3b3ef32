"""`ramet db login`: a role of one's own in the database of a service, for a while."""

import click
import msgspec

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string
from ramet.cli.ui.durations import Duration, local_time
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_result, say
from ramet.client import Client
from ramet.model.login import USUAL_SECONDS


@service_command("login")
@click.option(
    "--for", "seconds", type=Duration(), default=float(USUAL_SECONDS), show_default="1h", help="For how long."
)
@click.option("--read-only", is_flag=True, help="A login that cannot write, as with the key of a viewer.")
@output_option
def login(client: Client, service: Service, seconds: float, read_only: bool, output: str) -> None:
    """Make a login of your own in a service, and print its connection string.

    With the key of a viewer it can only read; others have the rights of tsdbadmin, which owns what they create.
    It ends by itself, or when the key is revoked. Forks do not have it.

    \b
    Examples:
      psql "$(ramet db login shop)"
      ramet db login shop --for 8h
      ramet db login shop --read-only
    """
    made = client.create_login(service.service_id, round(seconds), read_only=read_only)
    uri = connection_string(service.endpoint, made.password, made.role)
    print_result({**msgspec.to_builtins(made), "uri": uri}, output, lambda: click.echo(uri))
    say(f"{'Read-only until' if made.read_only else 'Until'} {local_time(made.expires_at)}.", "dim")
