"""`ramet service fork`: a new service with the data of another one."""

import click

from ramet.cli.commands.fork_reports import plan_pairs
from ramet.cli.commands.new_services import NewService, new_service_options
from ramet.cli.commands.restore_points import ChosenPoint, restore_point_options
from ramet.cli.ui.options import WAL_LEVEL, with_parent
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.model.wal_level import WalLevel


@click.command("fork")
@restore_point_options
@click.option(
    "--dry-run", is_flag=True, help="Show what the fork would be and how long it would take, and create nothing."
)
@click.option("--name", help="Name of the fork.  [default: the name of the parent with '-fork']")
@click.option(
    "--quiet/--no-quiet",
    default=None,
    help="Neutralize the fork: pause scheduled jobs and remove foreign credentials.  [default: for DEV forks]",
)
@click.option("--wal-level", type=WAL_LEVEL, help="replica or logical.  [default: that of the parent]")
@new_service_options("that of the parent", both=False)
@with_parent
def fork_service(
    client: Client,
    parent_id: str,
    point: ChosenPoint,
    dry_run: bool,
    name: str | None,
    quiet: bool | None,
    from_deleted: bool,
    wal_level: WalLevel | None,
    new: NewService,
) -> None:
    """Fork a service: create a new service with its data.

    Give exactly one of --now, --last-snapshot, --snapshot and --to-timestamp.

    \b
    Examples:
      ramet service fork shop --now
      ramet service fork shop --last-snapshot --name preview-42
      ramet service fork shop --snapshot before-the-migration
      ramet service fork shop --to-timestamp "10 minutes ago"
      ramet service fork shop --to-timestamp 2026-01-15T10:30:00Z --name before-the-accident
      ramet service fork shop --from-deleted --to-timestamp "2 days ago"
    """
    chosen = {**point.fields(client, parent_id), "from_deleted": from_deleted or None, "wal_level": wal_level}
    if dry_run:
        fields = {**chosen, "name": name, "cpu_millis": new.cpu, "memory_gbs": new.memory}
        plan = client.plan_fork(parent_id, point.strategy, environment_tag=new.environment, **fields)
        print_result(plan, new.output, lambda: print_pairs(plan_pairs(plan)))
        return
    new.follow(client, client.fork_service(parent_id, point.strategy, name=name, quiet=quiet, **chosen, **new.fields))
