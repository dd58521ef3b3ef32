"""The fork report over HTTP."""

from typing import Any

from litestar import Response, get

from ramet.api.errors import REFUSES
from ramet.api.parameters import ProjectId, ServiceId
from ramet.api.responses import PlaneDependency, answer
from ramet.api.schemas import forks as schemas
from ramet.api.schemas.forks import BaseSnapshot, NotCarriedOver, StepSeconds, TransactionMark, WalRange
from ramet.control.fork_reports import ForkReport, checks_of, cut_of, fork_report, left_behind


@get(
    "/forkReport",
    operation_id="getForkReport",
    summary="Get the fork report",
    opt={REFUSES: True},
    sync_to_thread=False,
)
def get_fork_report(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId
) -> Response[schemas.ForkReport]:
    """What a fork holds: the exact border of its history, how it was made, and what was checked."""
    return answer(report_shape(fork_report(plane, project_id, service_id)))


def report_shape(report: ForkReport) -> schemas.ForkReport:
    """Return what clients see of a report."""
    service, origin = report.service, report.origin
    captured, recovered = report.facts["capture"], report.facts["recovery"]
    cut = cut_of(report)
    ready_at = service.ready_at
    return schemas.ForkReport(
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
        total_seconds=None if ready_at is None else round((ready_at - service.created_at).total_seconds(), 6),
        steps=[StepSeconds(step, seconds) for step, seconds in report.step_seconds.items()],
        phases=captured.get("seconds", {}),
        neutralised=report.facts["neutralised"],
        not_carried_over=[NotCarriedOver(one.what, one.names, one.remedy) for one in left_behind(report)],
        checks=checks_of(report),
    )


def _base(report: ForkReport) -> BaseSnapshot:
    captured, base = report.facts["capture"], report.base
    kind = None if base is None else base.kind
    return BaseSnapshot(report.origin.snapshot_id, captured.get("base_time", ""), kind)


def _wal(captured: dict[str, Any], recovered: dict[str, Any]) -> WalRange:
    segments = captured.get("segments") or [None]
    end_lsn = captured.get("end_lsn", "0/0")
    return WalRange(
        first_segment=segments[0],
        last_segment=segments[-1],
        start_lsn=captured.get("start_lsn", "0/0"),
        stop_lsn=recovered.get("stop_lsn", end_lsn),
        replayed_bytes=recovered.get("wal_replayed_bytes", 0),
    )


def _mark(mark: dict[str, Any] | None) -> TransactionMark | None:
    return None if mark is None else TransactionMark(mark["xid"], mark["lsn"], mark["time"])
