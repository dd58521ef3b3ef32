"""`ramet service archive`: the off-host archive of a service."""

import click

from ramet.api.schemas.archive import Archive
from ramet.api.schemas.services import Service
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.model.timestamps import rfc3339

_CHOICES = {"on": True, "off": False, "default": None}


@service_command("archive")
@click.option("--set", "choice", type=click.Choice(tuple(_CHOICES)), help="Archive the service, or stop archiving it.")
@output_option
def show_archive(client: Client, service: Service, choice: str | None, output: str) -> None:
    """Show the off-host archive of a service: where it is, and how many seconds the loss of this host would take.

    PROD services are archived by default, DEV services are not.

    \b
    Examples:
      ramet service archive shop
      ramet service archive shop --set on
    """
    if choice is None:
        archive = client.get_archive(service.service_id)
    else:
        archive = client.update_archive(service.service_id, _CHOICES[choice])
    print_result(archive, output, lambda: print_pairs(_pairs(archive)))


def _pairs(archive: Archive) -> list[tuple[str, str]]:
    if not archive.enabled:
        if archive.url is None:
            return [("archive", "no archive is configured (RAMET_ARCHIVE_URL)")]
        return [("archive", "off"), ("server name", archive.server_name)]
    seconds = archive.lag_seconds
    lag = "unknown until the first base backup is complete" if seconds is None else f"{seconds:.0f} s"
    until, base, verified = archive.archived_until, archive.base_backup_time, archive.last_proven_restore
    return [
        ("archive", archive.url or ""),
        ("server name", archive.server_name),
        ("lag", lag),
        ("archived until", "-" if until is None else rfc3339(until)),
        ("base backup", "-" if base is None else rfc3339(base)),
        ("restore verified", "not yet" if verified is None else rfc3339(verified)),
        *([] if archive.problem is None else [("problem", archive.problem)]),
    ]
