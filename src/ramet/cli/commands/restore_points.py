"""The options of `ramet service fork` that choose what a fork holds, and what they mean to the server."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from ramet.api.schemas.restore import SnapshotStatus
from ramet.cli.ui.durations import absolute_time
from ramet.client import Client
from ramet.errors import Invalid, NotFound, WrongState
from ramet.model.fork import ForkStrategy


@dataclass(frozen=True)
class ChosenPoint:
    """What a user chose: a strategy, with the time or the snapshot that belongs to it."""

    strategy: ForkStrategy
    target_time: str | None = None
    snapshot: str | None = None

    def fields(self, client: Client, parent_id: str) -> dict[str, Any]:
        """Return the fields of the request, beside its strategy."""
        if self.snapshot is None:
            return {"target_time": self.target_time}
        return {"snapshot_id": _find_snapshot(client, parent_id, self.snapshot)}


def restore_point_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as `point`."""

    @wraps(command)
    def with_point(
        *, now: bool, last_snapshot: bool, snapshot: str | None, to_timestamp: str | None, **named: Any
    ) -> Any:
        return command(point=_chosen(now, last_snapshot, snapshot, to_timestamp), **named)

    past = click.option(
        "--to-timestamp",
        metavar="TIME",
        help="With the data as of a past time: RFC 3339 with an offset, or relative like '10 minutes ago' or 90s.",
    )
    named = click.option("--snapshot", metavar="NAME", help="With the data of this snapshot of the parent: name or id.")
    newest = click.option("--last-snapshot", is_flag=True, help="With the data of the parent's newest snapshot.")
    present = click.option("--now", is_flag=True, help="With all that is committed at this moment.")
    return present(newest(named(past(with_point))))


def _chosen(now: bool, last_snapshot: bool, snapshot: str | None, to_timestamp: str | None) -> ChosenPoint:
    target = None if to_timestamp is None else absolute_time(to_timestamp, datetime.now(UTC))
    choices = [
        (now, ChosenPoint(ForkStrategy.NOW)),
        (last_snapshot, ChosenPoint(ForkStrategy.LAST_SNAPSHOT)),
        (snapshot is not None, ChosenPoint(ForkStrategy.LAST_SNAPSHOT, snapshot=snapshot)),
        (target is not None, ChosenPoint(ForkStrategy.PITR, target_time=target)),
    ]
    given = [point for is_given, point in choices if is_given]
    if len(given) != 1:
        raise click.UsageError("Give exactly one of --now, --last-snapshot, --snapshot NAME and --to-timestamp TIME.")
    return given[0]


def _find_snapshot(client: Client, parent_id: str, wanted: str) -> str:
    """Return the id of the parent's snapshot with that id, or the only one with that name."""
    known = client.list_snapshots(parent_id)
    found = [one for one in known if one.id == wanted] or [one for one in known if one.name == wanted]
    if not found:
        raise NotFound(
            "SNAPSHOT_NOT_FOUND",
            f"No snapshot of the service has the id or the name {wanted!r}",
            f"See 'ramet service snapshots {parent_id}'.",
        )
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise Invalid("AMBIGUOUS_NAME", f"{len(found)} snapshots are named {wanted!r}", f"Give an id: {ids}.")
    if found[0].status is SnapshotStatus.CREATING:
        raise WrongState("SNAPSHOT_NOT_READY", f"Snapshot {wanted!r} is still being taken", "Try again in a moment.")
    return found[0].id
