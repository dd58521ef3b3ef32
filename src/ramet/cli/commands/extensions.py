"""`ramet db upgrade-extension`: bring extensions to the versions that are installed on the host."""

from pathlib import Path

import click
from msgspec import UNSET

from ramet.cli.ui.options import credentials_option, find_service, open_client, output_option, service_argument
from ramet.cli.ui.output import print_data, print_rows, say
from ramet.errors import Failed


@click.command("upgrade-extension")
@service_argument
@click.argument("extension", required=False)
@output_option
@credentials_option
def upgrade_extension(service: str, extension: str | None, output: str, credentials_file: Path | None) -> None:
    """Update an extension, or all, in every database of a service to the version that is installed on the host.

    The platform does it, for the admin does not own what the platform created. It works where a package took the old
    library away, too. States of before the update may need the old library to be forked; a dry run says so.

    \b
    Examples:
      ramet db upgrade-extension metrics timescaledb
      ramet db upgrade-extension shop
    """
    with open_client(credentials_file) as client:
        made = client.update_extensions(find_service(client, service).service_id, extension)
    failed = [one for one in made if one.problem is not UNSET]
    if output != "table":
        print_data(made, output)
    elif made:
        rows = [
            (one.database, one.extension, one.from_version, one.to_version, one.problem or "updated") for one in made
        ]
        print_rows(("database", "extension", "from", "to", "result"), rows)
    else:
        say("Nothing to update: each extension has the version that is installed.")
    if failed:
        raise Failed("EXTENSIONS_NOT_UPDATED", f"{len(failed)} of {len(made)} extensions stay at their version")
