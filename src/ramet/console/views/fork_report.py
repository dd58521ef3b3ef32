"""The report of a fork as sentences: its restore point, contents, what was left out, and the duration of each step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ramet.console.views.format import bytes_text
from ramet.console.views.operation_steps import step_title
from ramet.control.fork_reports import ForkReport, checks_of, left_behind
from ramet.model.fork import ForkStrategy, parse_target_time
from ramet.model.fork_report import Cut, Mark
from ramet.model.neutralized import neutralized_lines
from ramet.model.procedures import ProcedureName
from ramet.model.timestamps import rfc3339
from ramet.model.words import counted, listed

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StepShare:
    """A step's share of the total time; `begin` and `width` are percent."""

    title: str
    seconds: float
    begin: float
    width: float


@dataclass(frozen=True)
class ReportView:
    """A report in sentences, with times as `rfc3339` writes them. `total_seconds` pass from the request to READY."""

    restore_point: str
    contents: Lines
    neutralized: Lines
    not_copied: Lines
    shares: Sequence[StepShare]
    total_seconds: float
    checks: Sequence[str]


def report_view(report: ForkReport) -> ReportView:
    """Return a report in sentences."""
    ready_at = report.service.ready_at or report.service.created_at
    total_seconds = (ready_at - report.service.created_at).total_seconds()
    return ReportView(
        _restore_point(report),
        list(_contents(report)),
        list(neutralized_lines(report.facts.neutralised)),
        [(_sentence(one.what), f"{listed(one.names)} {one.remedy}".strip()) for one in left_behind(report)],
        _shares(report.step_seconds, total_seconds),
        total_seconds,
        checks_of(report),
    )


def _restore_point(report: ForkReport) -> str:
    origin = report.origin
    if origin.strategy == ForkStrategy.PITR and origin.target_time is not None:
        return f"Everything committed at or before {rfc3339(parse_target_time(origin.target_time))}."
    if origin.strategy == ForkStrategy.LAST_SNAPSHOT:
        taken_at = report.base.taken_at if report.base else origin.data_time
        return "A snapshot." if taken_at is None else f"The snapshot taken {rfc3339(taken_at)}."
    requested_at = rfc3339(report.service.created_at)
    return f"Everything committed when the fork was requested, {requested_at}, or shortly afterwards."


def _contents(report: ForkReport) -> Iterable[tuple[str, str]]:
    captured, recovered = report.facts.capture, report.facts.recovery
    if report.facts.known_cut is not None:
        yield from _borders(report.facts.known_cut)
    if captured.base_time is not None:
        kind = "the snapshot" if report.origin.snapshot_id else "a copy"
        yield "Base", f"{kind} taken {captured.base_time}, {bytes_text(captured.size_bytes)}"
    if recovered.wal_replayed_bytes:
        start, stop = captured.start_lsn or "the start", recovered.stop_lsn or "the end"
        yield "Replayed", f"{bytes_text(recovered.wal_replayed_bytes)} of WAL, from {start} to {stop}"
    if recovered.timeline is not None:
        yield "Timeline", str(recovered.timeline)


def _borders(cut: Cut) -> Iterable[tuple[str, str]]:
    if cut.last_included is not None:
        yield "Last transaction included", _mark(cut.last_included)
    nothing = "none: nothing had been committed after it"
    yield "First transaction left out", nothing if cut.first_excluded is None else _mark(cut.first_excluded)
    if behind := cut.behind_with_earlier_time:
        several = counted(len(behind), "transaction")
        numbers = listed([str(xid) for xid in behind])
        yield "Also left out", f"{several} with an earlier commit time but a later position in the WAL: {numbers}"


def _shares(step_seconds: Mapping[str, float], total_seconds: float) -> list[StepShare]:
    """Return the shares of the steps and of the time between them; together they are the total time."""
    parts = {step_title(ProcedureName.FORK, step): seconds for step, seconds in step_seconds.items()}
    between = total_seconds - sum(parts.values())
    if between > 0:
        parts["Between steps"] = between
    return shares_of(parts)


def shares_of(parts: Mapping[str, float]) -> list[StepShare]:
    """Return the shares of parts of a time, from their titles and seconds."""
    whole, begin, shares = sum(parts.values()) or 1.0, 0.0, []
    for title, seconds in parts.items():
        width = 100 * seconds / whole
        shares.append(StepShare(title, seconds, round(begin, 2), round(width, 2)))
        begin += width
    return shares


def _mark(mark: Mark) -> str:
    return f"{mark.xid}, committed {mark.time}, at {mark.lsn}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].replace("_", " ")
