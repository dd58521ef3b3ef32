"""`ramet service create`: a new service."""

from pathlib import Path

import click

from ramet.cli.commands.imports import Source, run_import, source_options
from ramet.cli.commands.new_services import TYPE, NewService, new_service_options, version_option
from ramet.cli.ui.options import WAL_LEVEL, with_client
from ramet.client import Client
from ramet.model.service_type import ServiceType
from ramet.model.wal_level import WalLevel


@click.command("create")
@click.argument("name")
@click.option(
    "--type",
    "service_type",
    type=TYPE,
    default="POSTGRES",
    show_default=True,
    help="Type of the service, which decides its extensions.",
)
@click.option("--wal-level", type=WAL_LEVEL, help="With logical, other servers can subscribe.  [default: replica]")
@version_option("the host's; with --from one that suits the source")
@click.option("--from", "url", metavar="URL", help="Import this database, as 'ramet service import' does.")
@source_options
@new_service_options("shared", both=True)
@with_client
def create_service(
    client: Client,
    name: str,
    service_type: ServiceType,
    wal_level: WalLevel | None,
    pg_version: int | None,
    url: str | None,
    dry_run: bool,
    password_file: Path | None,
    no_owner: bool,
    new: NewService,
) -> None:
    """Create a service with an empty database, or with the contents of a database elsewhere.

    \b
    Examples:
      ramet service create shop
      ramet service create shop --cpu 1000 --memory 4 --environment PROD
      ramet service create shop --pg-version 18
      ramet service create vectors --type VECTOR --no-wait -o json
      ramet service create shop --protected --label owner=ada
      ramet service create shop --from postgresql://postgres@db.example:5432/shop --pg-version 18
    """
    if url is not None and wal_level is not None:
        raise click.UsageError("--wal-level cannot be used with --from: use 'ramet service set-wal-level' afterwards.")
    if url is not None:
        source = Source(url, password_file, no_owner, pg_version)
        run_import(client, name, service_type, source, new, dry_run=dry_run)
        return
    if dry_run or password_file is not None or no_owner:
        raise click.UsageError("--dry-run, --password-file and --no-owner need --from.")
    if new.returns_existing(client, name):
        return
    new.follow(
        client,
        client.create_service(name, service_type=service_type, wal_level=wal_level, pg_major=pg_version, **new.fields),
    )
