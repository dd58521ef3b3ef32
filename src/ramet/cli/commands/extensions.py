"""`ramet db upgrade-extension`: update extensions to the versions that are installed on the host."""

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_result, print_rows, say
from ramet.client import Client
from ramet.errors import Failed


@service_command("upgrade-extension")
@click.argument("extension", required=False)
@output_option
def upgrade_extension(client: Client, service: Service, extension: str | None, output: str) -> None:
    """Update extensions to the installed versions. This updates one extension, or all, in every database of a service.

    Ramet runs ALTER EXTENSION UPDATE as a superuser, because tsdbadmin does not own these extensions. This also works
    if the old library is no longer installed. A fork of a state from before the update may need the old library; if
    so, a dry run of the fork says it.

    \b
    Examples:
      ramet db upgrade-extension metrics timescaledb
      ramet db upgrade-extension shop
    """
    updates = client.update_extensions(service.service_id, extension)
    failed = [one for one in updates if one.problem is not None]
    rows = [
        (one.database, one.extension, one.from_version, one.to_version, one.problem or "updated") for one in updates
    ]
    if updates or output != "table":
        print_result(updates, output, lambda: print_rows(("database", "extension", "from", "to", "result"), rows))
    else:
        say("Nothing to update: each extension already has the version that is installed on the host.")
    if failed:
        raise Failed("EXTENSIONS_NOT_UPDATED", f"{len(failed)} of {len(updates)} extensions were not updated")
