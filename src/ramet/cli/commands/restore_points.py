"""The options of commands that fork which choose the restore point."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from ramet.cli.ui.durations import absolute_time
from ramet.model.fork import ForkStrategy


@dataclass(frozen=True)
class ChosenPoint:
    """The restore point of a fork: a strategy, with the time or the snapshot that belongs to it."""

    strategy: ForkStrategy
    target_time: str | None = None
    snapshot: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request except the strategy."""
        return {"target_time": self.target_time, "snapshot_id": self.snapshot}


def restore_point_options(*, deleted: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options; the command gets them as `point`, and with `deleted` also `from_deleted`."""
    return functools.partial(_with_options, deleted)


def _with_options(with_deleted: bool, command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def with_point(
        *, now: bool, last_snapshot: bool, snapshot: str | None, to_timestamp: str | None, **named: Any
    ) -> Any:
        return command(point=_chosen(now, last_snapshot, snapshot, to_timestamp), **named)

    past = click.option(
        "--to",
        "--to-timestamp",
        "to_timestamp",
        metavar="TIME",
        help="Fork the data as of a past time, such as 5m, 14:03, '2026-11-22 12:25' or RFC 3339.",
    )
    named = click.option("--snapshot", metavar="NAME", help="Fork this snapshot of the parent, by name or id.")
    newest = click.option("--last-snapshot", is_flag=True, help="Fork the latest snapshot of the parent.")
    present = click.option("--now", is_flag=True, help="Fork everything that is committed now. This is the default.")
    deleted = click.option(
        "--from-deleted",
        is_flag=True,
        help="Fork a deleted service out of the off-host archive; without --to in its last state.",
    )
    return present(newest(named(past(deleted(with_point) if with_deleted else with_point))))


def _chosen(now: bool, last_snapshot: bool, snapshot: str | None, to_timestamp: str | None) -> ChosenPoint:
    target = None if to_timestamp is None else absolute_time(to_timestamp, datetime.now(UTC))
    choices = [
        (now, ChosenPoint(ForkStrategy.NOW)),
        (last_snapshot, ChosenPoint(ForkStrategy.LAST_SNAPSHOT)),
        (snapshot is not None, ChosenPoint(ForkStrategy.LAST_SNAPSHOT, snapshot=snapshot)),
        (target is not None, ChosenPoint(ForkStrategy.PITR, target_time=target)),
    ]
    given = [point for is_given, point in choices if is_given] or [ChosenPoint(ForkStrategy.NOW)]
    if len(given) > 1:
        raise click.UsageError("Give only one of --now, --last-snapshot, --snapshot NAME and --to TIME.")
    return given[0]
