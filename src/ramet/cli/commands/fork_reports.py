"""`ramet service report`, and the dry run of a fork: how a fork was made, or would be."""

import click
from rich.text import Text

from ramet.api.schemas.forks import ForkPlan, ForkReport, TransactionMark
from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import shown_duration
from ramet.cli.ui.options import output_option, with_service
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.model.neutralized import neutralized_lines
from ramet.model.timestamps import rfc3339

_MIB = 1024**2


@click.command("report")
@with_service
@output_option
def show_report(client: Client, service: Service, output: str) -> None:
    """Show how a fork was made. The report says which transactions it contains, and what was verified.

    \b
    Example:
      ramet service report shop-fork
    """
    report = client.fork_report(service.service_id)
    print_result(report, output, lambda: print_pairs(_report_pairs(report)))


def plan_pairs(plan: ForkPlan) -> list[tuple[str, str | Text]]:
    """Return what a fork would be, for a table."""
    base = plan.base_snapshot
    target = "" if plan.target_time is None else f" at {rfc3339(plan.target_time)}"
    base_time = "" if base is None or base.time is None else rfc3339(base.time)
    return [
        ("name", plan.name),
        ("data", f"{plan.strategy}{target}"),
        ("base snapshot", "-" if base is None else f"{base.id} of {base_time}"),
        ("WAL to replay", "-" if plan.wal_bytes is None else f"{plan.wal_bytes / _MIB:.1f} MiB"),
        ("takes about", shown_duration(plan.estimated_seconds)),
    ]


def _report_pairs(report: ForkReport) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("parent", f"{report.parent_name} ({report.parent_service_id})"),
        ("strategy", report.strategy),
        ("requested", report.requested_target or "-"),
        ("base", f"{report.base.id or 'made for this fork'} of {report.base.time}"),
        ("last included", _mark(report.last_included)),
        ("first excluded", _mark(report.first_excluded)),
        (
            "WAL",
            f"{report.wal.start_lsn} to {report.wal.stop_lsn}, {report.wal.replayed_bytes / _MIB:.1f} MiB replayed",
        ),
        ("timeline", str(report.timeline)),
        ("took", "-" if report.total_seconds is None else shown_duration(report.total_seconds)),
        ("steps", ", ".join(f"{one.step} {shown_duration(one.seconds)}" for one in report.steps)),
    ]
    pairs += [(title.lower(), sentence) for title, sentence in neutralized_lines(report.neutralised)]
    for one in report.not_carried_over:
        what = f"{one.what} {', '.join(one.names)}" if one.names else one.what
        pairs.append(("not carried over", f"{what}: {one.remedy}"))
    return [*pairs, *(("checked", check) for check in report.checks)]


def _mark(mark: TransactionMark | None) -> str:
    return "-" if mark is None else f"transaction {mark.xid} of {mark.time} at {mark.lsn}"
