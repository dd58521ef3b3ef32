"""`ramet service report`: how a fork or an import was made."""

import click
from rich.text import Text

from ramet.api.schemas.forks import ArchiveDownload, ForkReport, TransactionMark
from ramet.api.schemas.services import ForkedFrom
from ramet.cli.commands.imports import import_report_pairs
from ramet.cli.ui.durations import shown_duration, shown_mib
from ramet.cli.ui.options import complete_service, find_service, output_option, with_client
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.errors import NotFound
from ramet.ids import is_id
from ramet.model.neutralized import neutralized_lines


@click.command("report")
@click.argument("service", shell_complete=complete_service)
@output_option
@with_client
def show_report(client: Client, service: str, output: str) -> None:
    """Show how a fork or an import was made.

    The report of a fork says which transactions it contains, and what was verified. That of an import says what is
    different from the source; it can be read by the id of the service, too, when the import has failed.

    \b
    Examples:
      ramet service report shop-fork
      ramet service report d1k5vk7hf2
    """
    origin, service_id = _find(client, service)
    if origin is None:
        imported = client.import_report(service_id)
        print_result(imported, output, lambda: print_pairs(import_report_pairs(imported)))
        return
    report = client.fork_report(service_id)
    print_result(report, output, lambda: print_pairs(_report_pairs(report)))


def _find(client: Client, service: str) -> tuple[ForkedFrom | None, str]:
    """Return where a service was forked from, and its id; a service that is gone may have been an import."""
    try:
        found = find_service(client, service)
    except NotFound:
        if not is_id(service):
            raise
        return None, service
    return found.forked_from, found.service_id


def _report_pairs(report: ForkReport) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("parent", f"{report.parent_name} ({report.parent_service_id})"),
        ("strategy", report.strategy),
        ("requested", report.requested_target or "-"),
        ("base", f"{report.base.id or 'made for this fork'} of {report.base.time}"),
        *_downloaded_pairs(report.archive),
        ("last included", _mark(report.last_included)),
        ("first excluded", _mark(report.first_excluded)),
        (
            "WAL",
            f"{report.wal.start_lsn} to {report.wal.stop_lsn}, {shown_mib(report.wal.replayed_bytes)} replayed",
        ),
        ("timeline", str(report.timeline)),
        ("took", _total(report.total_seconds)),
        ("steps", ", ".join(f"{one.step} {shown_duration(one.seconds)}" for one in report.steps)),
    ]
    pairs += [(title.lower(), sentence) for title, sentence in neutralized_lines(report.neutralised)]
    for one in report.not_carried_over:
        what = f"{one.what} {', '.join(one.names)}" if one.names else one.what
        pairs.append(("not carried over", f"{what}: {one.remedy}"))
    return [*pairs, *(("checked", check) for check in report.checks)]


def _total(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return shown_duration(seconds) if seconds else "no time: it is a warm fork, whose steps had ended before"


def _downloaded_pairs(found: ArchiveDownload | None) -> list[tuple[str, str | Text]]:
    if found is None:
        return []
    size = f"{found.downloaded_bytes / 1e6:.1f} MB in {shown_duration(found.seconds)}"
    unread: list[tuple[str, str | Text]] = [] if found.unread is None else [("not checked", found.unread)]
    return [("from the archive", f"{found.url}, base backup {found.base_backup}: {size}"), *unread]


def _mark(mark: TransactionMark | None) -> str:
    return "-" if mark is None else f"transaction {mark.xid} of {mark.time} at {mark.lsn}"
