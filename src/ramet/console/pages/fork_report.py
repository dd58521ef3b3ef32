"""A fork's report as a story: what was asked for, what it holds, what it left behind, and where the time went."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Response

from ramet.console.context import Context, ServiceId, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.format import bytes_text, counted
from ramet.console.views.operation_steps import step_title
from ramet.control.fork_reports import ForkReport, checks_of, cut_of, fork_report, left_behind
from ramet.model.fork import ForkStrategy, parse_target_time, shown
from ramet.model.neutralised import listed, neutralised_lines
from ramet.model.procedures import ProcedureName

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StepShare:
    """The part of the whole time that a step took; `begin` and `width` are percent."""

    title: str
    seconds: float
    begin: float
    width: float


@dataclass(frozen=True)
class ReportView:
    """A report in sentences, with times as `shown` writes them; `total_seconds` lead from request to READY."""

    asked: str
    holds: Lines
    neutralised: Lines
    left: Lines
    shares: Sequence[StepShare]
    total_seconds: float
    checks: Sequence[str]


@read("/services/{service_id:str}/report", sync_to_thread=True)
def report_page(context: Context, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Tell how a fork was made."""
    report = fork_report(context.plane, session.project_id, service_id)
    return page("fork_report.html", context, session, service=report.service, story=report_view(report))


def report_view(report: ForkReport) -> ReportView:
    """Return a report as people read it."""
    ready_at = report.service.ready_at or report.service.created_at
    total_seconds = (ready_at - report.service.created_at).total_seconds()
    return ReportView(
        _asked(report),
        list(_holds(report)),
        list(neutralised_lines(report.facts["neutralised"])),
        [(_sentence(one.what), f"{listed(one.names)} {one.remedy}".strip()) for one in left_behind(report)],
        _shares(report.step_seconds, total_seconds),
        total_seconds,
        checks_of(report),
    )


def _asked(report: ForkReport) -> str:
    origin = report.origin
    if origin.strategy == ForkStrategy.PITR and origin.target_time is not None:
        return f"Everything committed up to {shown(parse_target_time(origin.target_time))}."
    if origin.strategy == ForkStrategy.LAST_SNAPSHOT:
        taken_at = report.base.taken_at if report.base else origin.data_time
        return "A snapshot." if taken_at is None else f"The snapshot of {shown(taken_at)}."
    return f"Everything committed by {shown(report.service.created_at)}, when it was asked for, or a moment later."


def _holds(report: ForkReport) -> Iterable[tuple[str, str]]:
    cut, captured, recovered = cut_of(report), report.facts["capture"], report.facts["recovery"]
    if last := cut.get("last_included"):
        yield "The last transaction", _mark(last)
    if first := cut.get("first_excluded"):
        yield "The first left out", _mark(first)
    elif cut:
        yield "The first left out", "none: nothing was committed after it yet"
    if behind := cut.get("behind_with_earlier_time"):
        several = counted(len(behind), "transaction")
        numbers = listed([str(xid) for xid in behind])
        yield "Left out as well", f"{several} of an earlier time, which the WAL has behind the border: {numbers}"
    if base_time := captured.get("base_time"):
        kind = "the snapshot" if report.origin.snapshot_id else "a copy"
        yield "Grown from", f"{kind} of {base_time}, {bytes_text(captured.get('size_bytes'))}"
    if replayed := recovered.get("wal_replayed_bytes"):
        stop = recovered.get("stop_lsn", "the end")
        yield "Replayed", f"{bytes_text(replayed)} of WAL, from {captured.get('start_lsn', 'the start')} to {stop}"
    if timeline := recovered.get("timeline"):
        yield "Timeline", str(timeline)


def _shares(step_seconds: Mapping[str, float], total_seconds: float) -> list[StepShare]:
    """Return the steps and what lies between them: together they are the whole time."""
    parts = {step_title(ProcedureName.FORK, step): seconds for step, seconds in step_seconds.items()}
    between = total_seconds - sum(parts.values())
    if between > 0:
        parts["Between the steps"] = between
    whole, begin, shares = sum(parts.values()) or 1.0, 0.0, []
    for title, seconds in parts.items():
        width = 100 * seconds / whole
        shares.append(StepShare(title, seconds, round(begin, 2), round(width, 2)))
        begin += width
    return shares


def _mark(mark: Mapping[str, Any]) -> str:
    return f"{mark['xid']}, of {mark['time']}, at {mark['lsn']}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].replace("_", " ")
