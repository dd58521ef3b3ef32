"""`ramet db login`, `logins`: roles of one's own in the database of a service, for a while."""

import click
import msgspec

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string, log_in
from ramet.cli.ui.durations import Duration, local_time
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_result, print_rows, say
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
    It ends by itself, or when the key is revoked. Forks do not have it. A service that is asleep is woken.

    \b
    Examples:
      psql "$(ramet db login shop)"
      ramet db login shop --for 8h
      ramet db login shop --read-only
    """
    made = log_in(client, service, round(seconds), read_only=read_only)
    uri = connection_string(service.endpoint, made.password, made.role)
    print_result({**msgspec.to_builtins(made), "uri": uri}, output, lambda: click.echo(uri))
    say(f"{'Read-only until' if made.read_only else 'Until'} {local_time(made.expires_at)}.", "dim")


@service_command("logins")
@click.option("--revoke", "role", metavar="ROLE", help="End this login now.")
@output_option
def list_logins(client: Client, service: Service, role: str | None, output: str) -> None:
    """List your logins in a service; with the key of an admin, all of them. They end by themselves.

    \b
    Examples:
      ramet db logins shop
      ramet db logins shop --revoke ramet_login_k3v9x1m2qa
    """
    if role is not None:
        client.revoke_login(service.service_id, role)
        say(f"Login {role} is revoked.")
        return
    found = client.list_logins(service.service_id)
    rows = [
        (one.role, "read-only" if one.read_only else "read and write", one.public_key, local_time(one.expires_at))
        for one in found
    ]
    print_result(found, output, lambda: print_rows(("role", "rights", "key", "until"), rows))
