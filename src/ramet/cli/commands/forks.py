"""`ramet service fork`: a new service with the data of another one."""

from typing import Any

import click

from ramet.cli.commands.new_services import NewService, new_service_options
from ramet.cli.commands.restore_points import ChosenPoint, restore_point_options
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.keeping import free_fork_name, whole
from ramet.cli.ui.options import WAL_LEVEL, Listing, with_parent
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.model.fork import MOST_AT_ONCE
from ramet.model.names import fork_name, suffixed
from ramet.model.wal_level import WalLevel


@click.command("fork")
@restore_point_options(deleted=True)
@click.option(
    "--dry-run", is_flag=True, help="Show what the fork would be and how long it would take, and create nothing."
)
@click.option("--name", help="Name of the fork.  [default: the name of the parent with '-fork', and a number]")
@click.option(
    "--count",
    type=click.IntRange(1, MOST_AT_ONCE),
    default=1,
    show_default=True,
    help="Make so many forks, or none; each has its number as a suffix of the name. JSON and YAML have a list then.",
)
@click.option(
    "--quiet/--no-quiet",
    default=None,
    help="Neutralize the fork: pause scheduled jobs and remove foreign credentials.  [default: for DEV forks]",
)
@click.option(
    "--max-age",
    type=Duration(),
    help="Be content with a state that is so old, such as 10m: one of the forks that 'ramet service warm' keeps ready.",
)
@click.option("--wal-level", type=WAL_LEVEL, help="replica or logical.  [default: that of the parent]")
@new_service_options("that of the parent", both=False)
@with_parent
def fork_service(
    client: Client,
    parent_id: str,
    known: Listing,
    point: ChosenPoint,
    dry_run: bool,
    name: str | None,
    count: int,
    quiet: bool | None,
    from_deleted: bool,
    max_age: float | None,
    wal_level: WalLevel | None,
    new: NewService,
) -> None:
    """Fork a service: create a new service with its data.

    Without --last-snapshot, --snapshot or --to it has everything that is committed now.

    \b
    Examples:
      ramet fork shop
      ramet fork shop --max-age 10m
      ramet service fork shop --last-snapshot --name preview-42
      ramet service fork shop --snapshot before-the-migration
      ramet service fork shop --name preview-42 --ttl 2h --label pr=42
      ramet service fork shop --last-snapshot --name worker --count 8 --idle-ttl 30m
      ramet service fork shop --to 10m
      ramet service fork shop --to '2026-01-15 10:30' --name before-the-accident
      ramet service fork shop --from-deleted --to "2 days ago"
    """
    chosen = {**point.fields(), "from_deleted": from_deleted or None, "wal_level": wal_level}
    chosen["max_age_seconds"] = whole(max_age)
    if dry_run:
        from ramet.cli.commands.fork_plans import plan_pairs  # forks do not need it

        fields = {**chosen, "name": name, "cpu_millis": new.cpu, "memory_gbs": new.memory}
        plan = client.plan_fork(parent_id, point.strategy, environment_tag=new.environment, **fields)
        print_result(plan, new.output, lambda: print_pairs(plan_pairs(plan)))
        return
    wanted = name if name is not None or from_deleted else _default_name(known, parent_id, new)
    if count > 1:
        fields = {**chosen, "quiet": quiet}
        _fork_several(client, parent_id, known, point, wanted or "fork", count, fields, new)
        return
    if wanted is not None and new.returns_existing(client, wanted, known=known):
        return
    new.follow(client, client.fork_service(parent_id, point.strategy, name=wanted, quiet=quiet, **chosen, **new.fields))


def _default_name(known: Listing, parent_id: str, new: NewService) -> str | None:
    """Return a name that is free; None, the server's default, where a repeated request must be the same."""
    if new.idempotency_key is not None:
        return None
    parent = next((one.name for one in known.services if one.service_id == parent_id), None)
    if parent is None:
        return None
    return (
        fork_name(parent) if new.allow_duplicate_name or new.if_not_exists else free_fork_name(known.services, parent)
    )


def _fork_several(
    client: Client,
    parent_id: str,
    known: Listing,
    point: ChosenPoint,
    name: str,
    count: int,
    fields: dict[str, Any],
    new: NewService,
) -> None:
    if new.returns_existing(client, *(suffixed(name, f"-{n}") for n in range(1, count + 1)), known=known):
        return
    new.follow_all(client, client.fork_services(parent_id, point.strategy, count, **fields, name=name, **new.fields))
