"""A fork's report as a story: what was asked for, what it holds, what it left behind, and where the time went."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Response

from ramet.console.pages import page
from ramet.console.parts import ConsoleParts, ServiceId, SignedIn, read
from ramet.console.steps import STEPS
from ramet.console.texts import bytes_text, counted
from ramet.control.reports import ForkReport, checks_of, cut_of, fork_report, left_behind
from ramet.model.fork import ForkStrategy, parse_target_time, shown

Lines = Sequence[tuple[str, str]]
_MOST_NAMES = 20


@dataclass(frozen=True)
class Share:
    """The part of the whole time that a step took; `begin` and `width` are percent."""

    title: str
    seconds: float
    begin: float
    width: float


@dataclass(frozen=True)
class Story:
    """A report in sentences, with times as `shown` writes them; `total_seconds` lead from request to READY."""

    asked: str
    holds: Lines
    neutralised: Lines
    left: Lines
    shares: Sequence[Share]
    total_seconds: float
    checks: Sequence[str]


@read("/services/{service_id:str}/report", sync_to_thread=True)
def report_page(parts: ConsoleParts, session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Tell how a fork was made."""
    report = fork_report(parts.control, session.project_id, service_id)
    return page("report.html", parts, session, service=report.service, story=story_of(report))


def story_of(report: ForkReport) -> Story:
    """Return a report as people read it."""
    born_at = report.service.born_at or report.service.created_at
    total_seconds = (born_at - report.service.created_at).total_seconds()
    return Story(
        _asked(report),
        list(_holds(report)),
        list(_neutralised(report.facts["neutralised"])),
        [(_sentence(one.what), f"{_listed(one.names)} {one.remedy}".strip()) for one in left_behind(report)],
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
        numbers = _listed([str(xid) for xid in behind])
        yield "Left out as well", f"{several} of an earlier time, which the WAL has behind the border: {numbers}"
    if base_time := captured.get("base_time"):
        kind = "the snapshot" if report.origin.snapshot_id else "a copy"
        yield "Grown from", f"{kind} of {base_time}, {bytes_text(captured.get('size_bytes'))}"
    if replayed := recovered.get("wal_replayed_bytes"):
        stop = recovered.get("stop_lsn", "the end")
        yield "Replayed", f"{bytes_text(replayed)} of WAL, from {captured.get('start_lsn', 'the start')} to {stop}"
    if timeline := recovered.get("timeline"):
        yield "Timeline", str(timeline)


def _neutralised(facts: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what was kept from acting on the world that the parent acts on, as far as there was any."""
    prepared = facts.get("prepared_transactions") or []
    if prepared:
        ended = facts.get("prepared_transactions_rolled_back") or 0
        fate = "rolled back" if ended >= len(prepared) else "kept; they hold their locks"
        if 0 < ended < len(prepared):
            fate = f"{ended} rolled back, because they changed roles or databases; the others are {fate}"
        yield "Prepared transactions", f"{_listed(prepared)}: {fate}"
    if names := facts.get("subscriptions"):
        yield "Subscriptions", f"{_listed(names)}: disabled and detached"
    if jobs := facts.get("jobs"):
        yield "Scheduled jobs", f"{_listed(jobs)}: deactivated"
    if mappings := facts.get("user_mappings"):
        yield "Foreign servers", f"{counted(mappings, 'user mapping')} emptied"
    if removed := facts.get("settings_removed"):
        yield "Settings", f"{_listed(removed)}: removed, because they keep tsdbadmin from logging in"
    if closed := facts.get("databases_not_entered"):
        yield "Not entered", f"{_listed(closed)}: these databases accept no connections"
    if rotated := facts.get("roles_rotated"):
        yield "Passwords", f"of {counted(rotated, 'login role')} replaced; only the new one of tsdbadmin is known"


def _shares(step_seconds: Mapping[str, float], total_seconds: float) -> list[Share]:
    """Return the steps and what lies between them: together they are the whole time."""
    parts = {STEPS["fork"].get(step, _sentence(step)): seconds for step, seconds in step_seconds.items()}
    between = total_seconds - sum(parts.values())
    if between > 0:
        parts["Between the steps"] = between
    whole, begin, shares = sum(parts.values()) or 1.0, 0.0, []
    for title, seconds in parts.items():
        width = 100 * seconds / whole
        shares.append(Share(title, seconds, round(begin, 2), round(width, 2)))
        begin += width
    return shares


def _mark(mark: Mapping[str, Any]) -> str:
    return f"{mark['xid']}, of {mark['time']}, at {mark['lsn']}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].replace("_", " ")
