"""`ramet service window`, `snapshots` and `snapshot`: what a service can be restored to."""

from functools import partial

import click
from msgspec import UNSET, UnsetType
from rich.text import Text

from ramet.api.schemas.restore import ArchiveWindow, RestoreWindow, Snapshot
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration, shown_mib
from ramet.cli.ui.options import LimitOrNone, output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result, print_rows, say
from ramet.client import Client
from ramet.model.timestamps import rfc3339

_MIB = 1024**2
_setting = partial(LimitOrNone, word="default")


@service_command("window")
@click.option("--days", type=_setting(click.INT), default=UNSET, help="Set the length of the restore window in days.")
@click.option(
    "--snapshot-every",
    type=_setting(Duration()),
    default=UNSET,
    help="Set the time after which the next snapshot is taken, such as 5m.",
)
@click.option(
    "--snapshot-wal",
    type=_setting(click.INT, unit=_MIB),
    default=UNSET,
    help="Set the MiB of WAL after which the next snapshot is taken.",
)
@output_option
def show_window(
    client: Client,
    service: Service,
    days: int | UnsetType | None,
    snapshot_every: int | UnsetType | None,
    snapshot_wal: int | UnsetType | None,
    output: str,
) -> None:
    """Show or change the restore window. A service can be restored to any time in it, except in gaps.

    An option changes a setting of the window first; 'default' resets the setting.

    \b
    Examples:
      ramet service window shop
      ramet service window shop --days 14 --snapshot-every 5m
      ramet service window shop --days default
    """
    if days is UNSET and snapshot_every is UNSET and snapshot_wal is UNSET:
        window = client.restore_window(service.service_id)
    else:
        window = client.update_restore_settings(
            service.service_id,
            window_days=days,
            snapshot_interval_seconds=snapshot_every,
            snapshot_wal_bytes=snapshot_wal,
        )
    print_result(window, output, lambda: print_pairs(_window_pairs(window)))


@service_command("snapshots")
@output_option
def list_snapshots(client: Client, service: Service, output: str) -> None:
    """List the snapshots of a service, oldest first.

    \b
    Example:
      ramet service snapshots shop
    """
    found = client.list_snapshots(service.service_id)
    columns = ("id", "time", "kind", "size", "name", "status")
    print_result(found, output, lambda: print_rows(columns, [_snapshot_row(one) for one in found]))


@service_command("snapshot")
@click.option("--name", help="Name of the snapshot.")
@click.option("--delete", "snapshot_id", metavar="ID", help="Delete this manual snapshot instead of taking a snapshot.")
def take_snapshot(client: Client, service: Service, name: str | None, snapshot_id: str | None) -> None:
    """Take or delete a manual snapshot. It is kept until it is deleted.

    \b
    Examples:
      ramet service snapshot shop --name before-the-migration
      ramet service snapshot shop --delete k3v9x1m2qa
    """
    if snapshot_id is None:
        print_pairs([("id", client.take_snapshot(service.service_id, name).id)])
        return
    client.delete_snapshot(service.service_id, snapshot_id)
    say(f"Snapshot {snapshot_id} is being deleted.")


def _window_pairs(window: RestoreWindow) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("earliest", "none yet" if window.earliest is None else rfc3339(window.earliest)),
        ("latest", "none yet" if window.latest is None else rfc3339(window.latest)),
        ("snapshots", str(len(window.snapshots))),
        *_archive_pairs(window.archive),
        ("kept for", f"{window.window_days} days"),
        ("taken every", f"{window.snapshot_interval_seconds} s or {window.snapshot_wal_bytes // _MIB} MiB of WAL"),
    ]
    if window.next_snapshot_at is not UNSET:
        meaning = f"{rfc3339(window.next_snapshot_at)} at the earliest: the last one took long or failed"
        pairs.append(("next one", Text(meaning, style="yellow")))
    for gap in window.gaps:
        until = "now" if gap.ends_at is None else rfc3339(gap.ends_at)
        pairs.append(("gap", Text(f"{rfc3339(gap.begins_at)} to {until}: {gap.reason}", style="red")))
    for step in window.clock_steps:
        meaning = f"from {rfc3339(step.before)} to {rfc3339(step.after)}: a time in between means its last occurrence"
        pairs.append(("clock set back", Text(meaning, style="yellow")))
    return pairs


def _archive_pairs(held: ArchiveWindow | None) -> list[tuple[str, str | Text]]:
    return [] if held is None else [("off-host archive", f"{rfc3339(held.earliest)} to {rfc3339(held.latest)}")]


def _snapshot_row(snapshot: Snapshot) -> list[str | Text]:
    size = "" if snapshot.size_bytes is None else shown_mib(snapshot.size_bytes)
    time = "" if snapshot.time is None else rfc3339(snapshot.time)
    return [snapshot.id, time, snapshot.kind, size, snapshot.name or "", snapshot.status]
