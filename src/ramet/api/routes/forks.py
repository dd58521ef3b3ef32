"""Forks: the request, its dry run, and the report of what a fork holds."""

from typing import Annotated

from litestar import Response
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody, QueryParameter

from ramet.api.errors import REFUSES
from ramet.api.parameters import IdempotencyKey, checked_key
from ramet.api.responses import ServicePath, accept, answer, read, router_of
from ramet.api.routes.restore import snapshot_shape
from ramet.api.routes.services import accepted_service, kept_fields
from ramet.api.schemas.forks import (
    ArchiveDownload,
    BaseSnapshot,
    ForkPlan,
    ForkReport,
    ForkServiceCreate,
    ForkServicesCreate,
    NotCarriedOver,
    PlannedDownload,
    StepSeconds,
    TransactionMark,
    WalRange,
)
from ramet.api.schemas.services import Service
from ramet.api.shapes import service_shape
from ramet.control import fork_estimates, fork_reports, forks
from ramet.control.requests import ForkRequest
from ramet.model.environment import Environment
from ramet.model.fork_report import CaptureFacts, Cut, Download, Mark, RecoveryFacts
from ramet.warm_forks import claims

DryRun = Annotated[
    bool,
    QueryParameter(
        name="dry_run",
        required=False,
        description="Check the request and return the plan of the fork without creating it.",
    ),
]
_PLANNED = ResponseSpec(ForkPlan, generate_examples=False, description="With dry_run: the plan of the fork.")


@accept(
    "/forkService", operation_id="forkService", tags=["Services"], summary="Fork a service", responses={200: _PLANNED}
)
def fork_service(
    at: ServicePath, data: JSONBody[ForkServiceCreate], idempotency_key: IdempotencyKey = None, dry_run: DryRun = False
) -> Response[Service]:
    """Accept a fork: a new service with the data of this one as of now, of its last snapshot, or of a past time.

    What only the off-host archive has is downloaded first; with from_deleted that may be a service that was deleted.
    Where the service keeps warm forks, one of them may be given: it is READY already, and its status says so where
    somebody chose to keep some. It has exactly what is committed now, or with max_age_seconds a state of at most that
    age. With dry_run nothing is created, and the response is 200 with the plan of the fork.
    """
    request = _request(data)
    if dry_run:
        claims.check_request(request)
        plan = forks.plan_fork(*at, request)
        return answer(_plan_shape(plan, fork_estimates.estimate_fork(at.plane, plan)))
    return accepted_service(claims.fork_services(*at, request, 1, checked_key(idempotency_key))[0])


@accept("/forkServices", operation_id="forkServices", tags=["Services"], summary="Fork a service several times")
def fork_services(
    at: ServicePath, data: JSONBody[ForkServicesCreate], idempotency_key: IdempotencyKey = None
) -> Response[list[Service]]:
    """Accept several forks of the same restore point, or none of them. Each has its own endpoint and password."""
    accepted = claims.fork_services(*at, _request(data), data.count, checked_key(idempotency_key))
    return answer([service_shape(one.service, one.initial_password) for one in accepted], 202)


@read("/forkReport", operation_id="getForkReport", tags=["Restore"], summary="Get the fork report", opt={REFUSES: True})
def get_fork_report(at: ServicePath) -> Response[ForkReport]:
    """What a fork contains: where its history ends, how it was created, and what was checked."""
    return answer(report_shape(fork_reports.fork_report(*at)))


def _request(data: ForkServiceCreate) -> ForkRequest:
    return ForkRequest(
        strategy=data.fork_strategy,
        name=data.name,
        region_code=data.region_code,
        cpu_millis=data.cpu_millis,
        memory_gbs=data.memory_gbs,
        target_time=data.target_time,
        environment=data.environment_tag or Environment.DEV,
        snapshot_id=data.snapshot_id,
        quiet=data.quiet,
        from_deleted=data.from_deleted is True,
        wal_level=data.wal_level,
        max_age_seconds=data.max_age_seconds,
        **kept_fields(data),
    )


def _plan_shape(plan: forks.ForkPlan, estimate: fork_estimates.Estimate) -> ForkPlan:
    """Return what clients see of the plan of a fork."""
    fork, point = plan.fork, plan.point
    if fork.origin is None:
        raise AssertionError("BUG: a fork has an origin")
    return ForkPlan(
        parent_service_id=fork.origin.service_id,
        name=fork.name,
        strategy=point.strategy,
        target_time=point.target,
        base_snapshot=None if point.base is None else snapshot_shape(point.base),
        archive=_planned_download(plan, estimate),
        copied_bytes=estimate.copied_bytes,
        environment=fork.environment,
        cpu_millis=fork.size.cpu_millis,
        memory_gbs=fork.size.memory_gbs,
        wal_bytes=estimate.wal_bytes,
        estimated_seconds=round(estimate.seconds, 3),
    )


def _planned_download(plan: forks.ForkPlan, estimate: fork_estimates.Estimate) -> PlannedDownload | None:
    base, size_bytes = plan.base_backup, estimate.download_bytes
    if base is None or size_bytes is None:
        return None
    return PlannedDownload(base.id, base.taken_at, size_bytes, round(estimate.download_rate))


def report_shape(report: fork_reports.ForkReport) -> ForkReport:
    """Return what clients see of a report."""
    service, origin = report.service, report.origin
    captured, recovered = report.facts.capture, report.facts.recovery
    cut = report.facts.known_cut or Cut()
    ready_at = service.ready_at
    return ForkReport(
        service_id=service.id,
        parent_service_id=origin.service_id,
        parent_name=origin.name,
        strategy=origin.strategy,
        requested_target=origin.target_time,
        base=_base(report),
        archive=_download(captured.archive),
        wal=_wal(captured, recovered),
        timeline=recovered.timeline or 1,
        last_included=_mark(cut.last_included),
        first_excluded=_mark(cut.first_excluded),
        excluded_with_earlier_time=cut.behind_with_earlier_time,
        size_bytes=captured.size_bytes,
        total_seconds=None if ready_at is None else round((ready_at - service.created_at).total_seconds(), 6),
        steps=[StepSeconds(step, seconds) for step, seconds in report.step_seconds.items()],
        phases=captured.seconds,
        neutralised=report.facts.neutralised,
        not_carried_over=[NotCarriedOver(one.what, one.names, one.remedy) for one in fork_reports.left_behind(report)],
        checks=fork_reports.checks_of(report),
    )


def _base(report: fork_reports.ForkReport) -> BaseSnapshot:
    base = report.base
    kind = None if base is None else base.kind
    return BaseSnapshot(report.origin.snapshot_id, report.facts.capture.base_time or "", kind)


def _download(done: Download | None) -> ArchiveDownload | None:
    if done is None or done.url is None:
        return None
    return ArchiveDownload(done.url, done.base_backup, done.downloaded_bytes, done.seconds, done.unread)


def _wal(captured: CaptureFacts, recovered: RecoveryFacts) -> WalRange:
    segments = captured.segments
    return WalRange(
        first_segment=segments[0] if segments else None,
        last_segment=segments[-1] if segments else None,
        start_lsn=captured.start_lsn or "0/0",
        stop_lsn=recovered.stop_lsn or captured.end_lsn or "0/0",
        replayed_bytes=recovered.wal_replayed_bytes,
    )


def _mark(mark: Mark | None) -> TransactionMark | None:
    return None if mark is None else TransactionMark(mark.xid, mark.lsn, mark.time)


forks_router = router_of(__name__)
