"""The fork report over HTTP."""

from typing import Any

from litestar import Response, get

from ramet.api import wire_restore as wire
from ramet.api.answers import ControlVerbs, ProjectId, ServiceId, answer, errors
from ramet.control.reports import ForkReport, fork_report


@get(
    "/forkReport",
    operation_id="getForkReport",
    summary="Get the fork report",
    responses=errors(400, 403, 404),
    sync_to_thread=False,
)
def get_fork_report(control: ControlVerbs, project_id: ProjectId, service_id: ServiceId) -> Response[wire.ForkReport]:
    """What a fork holds: the exact border of its history, how it was made, and what was checked."""
    return answer(report_shape(fork_report(control, project_id, service_id)))


def report_shape(report: ForkReport) -> wire.ForkReport:
    """Return what clients see of a report."""
    service, origin = report.service, report.origin
    captured, recovered = report.facts["capture"], report.facts["recovery"]
    cut = captured.get("cut") or report.facts.get("cut") or {}
    born_at = service.born_at
    return wire.ForkReport(
        service_id=service.id,
        parent_service_id=origin.service_id,
        parent_name=origin.name,
        strategy=origin.strategy,
        requested_target=origin.target_time,
        base=_base(report),
        wal=_wal(captured, recovered),
        timeline=recovered.get("timeline", 1),
        last_included=_mark(cut.get("last_included")),
        first_excluded=_mark(cut.get("first_excluded")),
        excluded_with_earlier_time=cut.get("behind_with_earlier_time", []),
        size_bytes=captured.get("size_bytes", 0),
        total_seconds=None if born_at is None else round((born_at - service.created_at).total_seconds(), 6),
        steps=[wire.StepSeconds(step, seconds) for step, seconds in report.step_seconds.items()],
        phases=captured.get("seconds", {}),
        neutralised=report.facts["neutralised"],
        not_carried_over=_not_carried_over(report),
        checks=_checks(captured, recovered, origin.target_time),
    )


def _base(report: ForkReport) -> wire.BaseSnapshot:
    captured, base = report.facts["capture"], report.base
    kind = None if base is None else base.kind
    return wire.BaseSnapshot(report.origin.snapshot_id, captured.get("base_time", ""), kind)


def _wal(captured: dict[str, Any], recovered: dict[str, Any]) -> wire.WalRange:
    segments = captured.get("segments") or [None]
    end_lsn = captured.get("end_lsn", "0/0")
    return wire.WalRange(
        first_segment=segments[0],
        last_segment=segments[-1],
        start_lsn=captured.get("start_lsn", "0/0"),
        stop_lsn=recovered.get("stop_lsn", end_lsn),
        replayed_bytes=recovered.get("wal_replayed_bytes", 0),
    )


def _mark(mark: dict[str, Any] | None) -> wire.TransactionMark | None:
    return None if mark is None else wire.TransactionMark(mark["xid"], mark["lsn"], mark["time"])


def _not_carried_over(report: ForkReport) -> list[wire.NotCarriedOver]:
    found = []
    tables = report.facts.get("unlogged_tables", [])
    if tables and not report.facts["capture"].get("clean", False):
        found.append(wire.NotCarriedOver("rows of unlogged tables", tables, "They are empty; fill them again."))
    statistics = report.facts.get("statistics")
    remedy = "ANALYZE runs in the background." if statistics is None else f"ANALYZE ran: {statistics}."
    found.append(wire.NotCarriedOver("cumulative statistics", [], remedy))
    found.append(wire.NotCarriedOver("replication slots", [], "They stay with the parent."))
    return found


def _checks(captured: dict[str, Any], recovered: dict[str, Any], target: str | None) -> list[str]:
    checks = ["Each WAL segment was of the parent's cluster, timeline and place, and whole."]
    if captured.get("clean"):
        return [*checks, "The parent's server had been stopped cleanly, before and after the copy."]
    cut = captured.get("cut")
    if cut is None:
        return [*checks, f"Recovery reached the end of the copy at {captured.get('end_lsn', 'its end')}."]
    if cut["first_excluded"] is None:
        return [*checks, "Recovery reached the last transaction in the parent's WAL, and went on from there."]
    excluded, last = recovered.get("first_excluded_time"), recovered.get("last_commit_time")
    return [
        *checks,
        f"Recovery stopped before the transaction of {excluded}, which ended after {target}.",
        f"The last transaction in the fork is of {last}, not after {target}.",
        f"The fork is on a timeline of its own, {recovered.get('timeline')}.",
    ]
