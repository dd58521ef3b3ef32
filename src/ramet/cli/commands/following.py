"""`ramet service follow` and `ramet service promote`: a standby of a server elsewhere, until it is independent."""

from pathlib import Path

import click
from rich.text import Text

from ramet.api.schemas.following import FollowReport
from ramet.api.schemas.services import Service
from ramet.cli.commands.imports import Progress, finding_pairs, source_fields, source_password_option
from ramet.cli.commands.new_services import NewService, new_service_options, version_option
from ramet.cli.ui.durations import shown_mib
from ramet.cli.ui.options import service_command, with_client
from ramet.cli.ui.output import print_pairs, print_result
from ramet.cli.ui.service_views import print_service
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.client import Client
from ramet.model.upstream import FollowMethod


@click.command("follow")
@click.argument("name")
@click.option(
    "--from", "url", required=True, metavar="URL", help="The server, as postgresql://user@host:port/database."
)
@click.option("--slot", help="A physical replication slot of the source to use.  [default: none]")
@click.option("--create-slot", is_flag=True, help="Make a physical replication slot in the source, and use it.")
@click.option(
    "--source-archive",
    metavar="NAME",
    help="The subdirectory of RAMET_SOURCE_ARCHIVES on Ramet's host with the source's archived WAL.  [default: none]",
)
@click.option(
    "--method",
    type=click.Choice(FollowMethod, case_sensitive=False),
    default=FollowMethod.PHYSICAL,
    show_default=True,
    help="A standby of the whole server, or a subscription to one database, where only SQL is allowed.",
)
@source_password_option
@version_option("one that suits the source")
@click.option("--dry-run", is_flag=True, help="Examine the source and show the report, and create nothing.")
@new_service_options("shared", both=True)
@with_client
def follow_service(
    client: Client,
    name: str,
    url: str,
    slot: str | None,
    create_slot: bool,
    source_archive: str | None,
    method: FollowMethod,
    pg_version: int | None,
    dry_run: bool,
    password_file: Path | None,
    new: NewService,
) -> None:
    """Create a service that is a read-only standby of a server elsewhere, or subscribes to a database of it.

    It is a copy of the whole server, by pg_basebackup, and streams from then on. It can be forked like any other
    service, also as of a past time, and `ramet service promote` makes it independent. The role of the URL needs
    REPLICATION. The connection has TLS unless the URL says sslmode=disable.

    With --method logical it is a copy of one database, which may have another major version, and receives its changes.
    Write nothing in it until it is promoted.

    \b
    Examples:
      ramet service follow shop --from postgresql://replicator@db.example:5432/shop --dry-run
      ramet service follow shop --from postgresql://replicator@db.example:5432/shop --environment PROD
      ramet service follow shop --from postgresql://owner@db.example:5432/shop --method logical --pg-version 18
    """
    fields = {
        **source_fields(url, password_file),
        "slot": slot,
        "create_slot": create_slot or None,
        "archive": source_archive,
        "method": method,
        "pg_major": pg_version,
    }
    if dry_run:
        report = client.plan_follow(name, **fields)
        print_result(report, new.output, lambda: print_pairs(_pairs(report)))
        return
    if new.returns_existing(client, name):
        return
    accepted = client.follow_database(name, **fields, **new.fields)
    new.follow(client, accepted, doing="Copying", detail=Progress(client, accepted.service_id))


@service_command("promote")
@click.option("--wait-for-lsn", metavar="LSN", help="Wait until this LSN of the source is replayed.")
@click.option("--drain", is_flag=True, help="Wait until the source was shut down, and all of it is here.")
@click.option(
    "--neutralize", is_flag=True, help="Disable what acts on the outside world, and give all roles other passwords."
)
@outcome_options
def promote_service(
    client: Client,
    service: Service,
    wait_for_lsn: str | None,
    drain: bool,
    neutralize: bool,
    waiting: Waiting,
    output: str,
) -> None:
    """Make a service that follows a source independent: from then on it can be written to.

    By default that happens at once, with what it has received. tsdbadmin gets the password that the service was
    created with; other roles keep theirs, and none stays a superuser.

    \b
    Examples:
      ramet service promote shop --drain
      ramet service promote shop --wait-for-lsn 16/B374D848
    """
    changed = client.promote_service(service.service_id, wait_for_lsn=wait_for_lsn, drain=drain, neutralize=neutralize)
    detail, doing = Progress(client, service.service_id), f"Promoting {service.name}"
    ready = waiting.follow(client.wait_ready, service.service_id, doing, f"{service.name} is READY", detail)
    print_service(ready or changed, output)


def _pairs(report: FollowReport) -> list[tuple[str, str | Text]]:
    return [
        ("source", f"{report.source}, PostgreSQL {report.version}"),
        ("size", f"{shown_mib(report.size_bytes)} in {len(report.databases)} databases"),
        *finding_pairs(report.findings),
    ]
