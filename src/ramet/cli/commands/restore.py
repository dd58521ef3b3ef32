"""`ramet service`: window, report, snapshots, snapshot."""

from pathlib import Path
from typing import Any

import click
from msgspec import UNSET, UnsetType
from rich.text import Text

from ramet.api.schemas.forks import ForkPlan, ForkReport, TransactionMark
from ramet.api.schemas.restore import RestoreWindow, Snapshot
from ramet.cli.ui.durations import Duration, shown_duration
from ramet.cli.ui.options import credentials_option, find_service, open_client, output_option, service_argument
from ramet.cli.ui.output import print_data, print_pairs, print_rows, say
from ramet.model.fork import shown
from ramet.model.neutralised import neutralised_lines

_MIB = 1024**2


class _Setting(click.ParamType[int | UnsetType | None]):
    """A value of another type, or the word 'default', which is None."""

    def __init__(self, inner: click.ParamType[Any], unit: int = 1) -> None:
        self.inner, self.unit, self.name = inner, unit, inner.name

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | UnsetType | None:
        """Return the value in the interface's unit, None for the default, UNSET where nothing was given."""
        if value is UNSET:
            return UNSET
        return None if value == "default" else int(self.inner.convert(value, param, ctx) * self.unit)


@click.command("window")
@service_argument
@click.option("--days", type=_Setting(click.INT), default=UNSET, help="Set how many days back it is to reach.")
@click.option(
    "--snapshot-every", type=_Setting(Duration()), default=UNSET, help="Set after how long a snapshot is due, like 5m."
)
@click.option(
    "--snapshot-wal", type=_Setting(click.INT, _MIB), default=UNSET, help="Set after how many MiB of WAL one is due."
)
@output_option
@credentials_option
def show_window(
    service: str,
    days: int | UnsetType | None,
    snapshot_every: int | UnsetType | None,
    snapshot_wal: int | UnsetType | None,
    output: str,
    credentials_file: Path | None,
) -> None:
    """Show the moments that a fork of a service can have: from, to, and the gaps in between with their reasons.

    With an option the settings behind it are changed first; 'default' takes a setting back.

    \b
    Examples:
      ramet service window shop
      ramet service window shop --days 14 --snapshot-every 5m
      ramet service window shop --days default
    """
    with open_client(credentials_file) as client:
        service_id = find_service(client, service).service_id
        if days is UNSET and snapshot_every is UNSET and snapshot_wal is UNSET:
            window = client.restore_window(service_id)
        else:
            window = client.update_restore_settings(
                service_id,
                window_days=days,
                snapshot_interval_seconds=snapshot_every,
                snapshot_wal_bytes=snapshot_wal,
            )
    if output == "table":
        print_pairs(_window_pairs(window))
    else:
        print_data(window, output)


@click.command("report")
@service_argument
@output_option
@credentials_option
def show_report(service: str, output: str, credentials_file: Path | None) -> None:
    """Show what exactly a fork holds, how it was made, and what was checked.

    \b
    Example:
      ramet service report shop-fork
    """
    with open_client(credentials_file) as client:
        report = client.fork_report(find_service(client, service).service_id)
    if output == "table":
        print_pairs(_report_pairs(report))
    else:
        print_data(report, output)


@click.command("snapshots")
@service_argument
@output_option
@credentials_option
def list_snapshots(service: str, output: str, credentials_file: Path | None) -> None:
    """List the snapshots of a service, oldest first.

    \b
    Example:
      ramet service snapshots shop
    """
    with open_client(credentials_file) as client:
        found = client.list_snapshots(find_service(client, service).service_id)
    if output == "table":
        print_rows(("id", "time", "kind", "size", "name", "status"), [_snapshot_row(one) for one in found])
    else:
        print_data(found, output)


@click.command("snapshot")
@service_argument
@click.option("--name", help="What to call it.")
@click.option("--delete", "snapshot_id", metavar="ID", help="Delete this manual snapshot instead of taking one.")
@credentials_option
def take_snapshot(service: str, name: str | None, snapshot_id: str | None, credentials_file: Path | None) -> None:
    """Take a snapshot of a service, which stays until it is deleted, or delete one.

    \b
    Examples:
      ramet service snapshot shop --name before-the-migration
      ramet service snapshot shop --delete k3v9x1m2qa
    """
    with open_client(credentials_file) as client:
        service_id = find_service(client, service).service_id
        if snapshot_id is not None:
            client.delete_snapshot(service_id, snapshot_id)
            say(f"Snapshot {snapshot_id} is being deleted.")
            return
        print_pairs([("id", client.take_snapshot(service_id, name).id)])


def print_plan(plan: ForkPlan, output: str) -> None:
    """Print what a fork would be."""
    if output != "table":
        print_data(plan, output)
        return
    base = plan.base_snapshot
    target = "" if plan.target_time is None else f" at {shown(plan.target_time)}"
    print_pairs(
        [
            ("would be", plan.name),
            ("data", f"{plan.strategy}{target}"),
            ("from snapshot", "-" if base is None else f"{base.id} of {_time(base)}"),
            ("WAL to replay", "-" if plan.wal_bytes is None else f"{plan.wal_bytes / _MIB:.1f} MiB"),
            ("takes about", shown_duration(plan.estimated_seconds)),
        ]
    )


def _window_pairs(window: RestoreWindow) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("earliest", "none yet" if window.earliest is None else shown(window.earliest)),
        ("latest", "none yet" if window.latest is None else shown(window.latest)),
        ("snapshots", str(len(window.snapshots))),
        ("kept for", f"{window.window_days} days"),
        ("a snapshot", f"after {window.snapshot_interval_seconds} s or {window.snapshot_wal_bytes // _MIB} MiB of WAL"),
    ]
    for gap in window.gaps:
        until = "now" if gap.ends_at is None else shown(gap.ends_at)
        pairs.append(("gap", Text(f"{shown(gap.begins_at)} to {until}: {gap.reason}", style="red")))
    for step in window.clock_steps:
        said = f"from {shown(step.before)} to {shown(step.after)}: of times in between the last occurrence counts"
        pairs.append(("clock went back", Text(said, style="yellow")))
    return pairs


def _report_pairs(report: ForkReport) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("parent", f"{report.parent_name} ({report.parent_service_id})"),
        ("strategy", report.strategy),
        ("asked for", report.requested_target or "-"),
        ("base", f"{report.base.id or 'made for this fork'} of {report.base.time}"),
        ("last included", _mark(report.last_included)),
        ("first left out", _mark(report.first_excluded)),
        (
            "WAL",
            f"{report.wal.start_lsn} to {report.wal.stop_lsn}, {report.wal.replayed_bytes / _MIB:.1f} MiB replayed",
        ),
        ("timeline", str(report.timeline)),
        ("took", "-" if report.total_seconds is None else shown_duration(report.total_seconds)),
        ("steps", ", ".join(f"{one.step} {shown_duration(one.seconds)}" for one in report.steps)),
    ]
    pairs += [(title.lower(), told) for title, told in neutralised_lines(report.neutralised)]
    for one in report.not_carried_over:
        what = f"{one.what} {', '.join(one.names)}" if one.names else one.what
        pairs.append(("left behind", f"{what}: {one.remedy}"))
    return [*pairs, *(("checked", check) for check in report.checks)]


def _snapshot_row(snapshot: Snapshot) -> list[str | Text]:
    size = "" if snapshot.size_bytes is None else f"{snapshot.size_bytes / _MIB:.1f} MiB"
    return [snapshot.id, _time(snapshot), snapshot.kind, size, snapshot.name or "", snapshot.status]


def _time(snapshot: Snapshot) -> str:
    return "" if snapshot.time is None else shown(snapshot.time)


def _mark(mark: TransactionMark | None) -> str:
    return "-" if mark is None else f"transaction {mark.xid} of {mark.time} at {mark.lsn}"
