"""The verbs over upgrades: accept one, or its trial alone, and read how it went."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace

from ramet.control.admission import capacity_of, check_admission, wanted_for
from ramet.control.forks import ForkPlan, plan_fork, recheck, state_of
from ramet.control.idempotency import earlier_answer, new_identity, remember, replay
from ramet.control.key_limits import with_present_key
from ramet.control.life_spans import within_limits
from ramet.control.lookup import check_independent, find_service, no_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host, reserve_ports
from ramet.control.requests import Accepted, ForkRequest
from ramet.control.services import accept
from ramet.errors import Invalid, NotFound, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.names import suffixed
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import OperationStatus, Status
from ramet.model.upgrade import Refusal, UpgradeFacts
from ramet.procedures.servers import server_of
from ramet.procedures.state import TryUpgradeState
from ramet.procedures.upgrade import find_obstacle
from ramet.store import operations, services

_SHOWN_REFUSALS = 10
_DOWNTIME = ("capture", "boot", "prepare", "stop", "upgrade", "start", "complete")


@dataclass(frozen=True)
class UpgradeRequest:
    """The upgrade of a service to `to_major`, or only its trial. `keeps`: the fork of a trial remains as a service."""

    to_major: int
    is_trial: bool = False
    keeps: bool = False


@dataclass(frozen=True)
class Upgrade:
    """An upgrade that was tried: the fork that it was tried on, and how far it is. `step` is the title of a step."""

    trial: Service
    service_id: str
    status: OperationStatus
    step: str | None
    progress: str
    error: str | None
    started_at: datetime
    finished_at: datetime | None
    report: dict[str, Any]

    @property
    def previous_service_id(self) -> str | None:
        """The paused service that has the state before; None for a trial, and before the upgrade has succeeded."""
        return self.trial.id if "stopped_seconds" in self.report else None

    @property
    def downtime_seconds(self) -> float | None:
        """About how long the service would be down: what has to happen between its stop and its start."""
        seconds: dict[str, float] = self.report.get("seconds", {})
        steps = _DOWNTIME if self.report.get("keeps_statistics", True) else (*_DOWNTIME, "analyze")
        if not set(steps) <= set(seconds):
            return None
        return round(sum(seconds[step] for step in steps), 1)


def upgrade_service(
    plane: Plane, project_id: str, service_id: str, request: UpgradeRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept an upgrade, or its trial alone, on a fork of the service. Raises Invalid with all that speaks against it.

    The fork that an upgrade is tried on becomes the service before, paused, when that succeeds.
    """
    asked = (service_id, request)
    if (earlier := earlier_answer(plane, project_id, idempotency_key, asked, also_gone=True)) is not None:
        return earlier
    service, facts = _checked(plane, project_id, service_id, request)
    wanted = ForkRequest(ForkStrategy.NOW, name=suffixed(service.name, f"-upgrade-{request.to_major}"), quiet=True)
    plan = plan_fork(plane, project_id, service_id, wanted)
    new, report, capacity = new_identity(plane, idempotency_key), _first_report(facts, request), capacity_of(plane)
    with plane.change() as tx:
        plane = with_present_key(plane, tx)
        if (replayed := replay(plane, tx, project_id, idempotency_key, asked, also_gone=True)) is not None:
            return replayed
        plan = recheck(plane, tx, plan, wanted)
        _check_ready(plan.parent)
        if not request.is_trial:
            _check_alone(tx, plan.parent)
        (port,) = reserve_ports(plane, tx, new.free_ports)
        check_admission(plane, tx, capacity, project_id, wanted_for([plan.fork]))
        given = _within_limits(plane, tx, plan) if request.keeps else plan.fork
        fork = new.given_to(given, plane, port)
        state = TryUpgradeState(
            **asdict(state_of(tx, plan, wanted)),
            from_major=service.pg_major,
            to_major=request.to_major,
            facts=facts,
            keeps=request.keeps,
            switches=not request.is_trial,
            report=report,
        )
        accepted = accept(plane, tx, fork, ProcedureName.TRY_UPGRADE, new.password, state, service.id)
        services.update_service(tx, fork.id, report={"upgrade": report})
        remember(plane, tx, project_id, idempotency_key, asked, fork.id)
    return accepted


def later_majors(plane: Plane, service: Service) -> list[int]:
    """Return the versions that this host has and that a service can be upgraded to, in order."""
    return [major for major in plane.backend.upgrades.majors() if major > service.pg_major]


def list_upgrades(plane: Plane, project_id: str, service_id: str) -> list[Upgrade]:
    """Return the upgrades that were tried of a service, newest first."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        trials = services.trials_of_upgrades(tx, service.id)
        switches = operations.of_subject(tx, service.id, ProcedureName.UPGRADE)
        tried = {one.id: operations.of_subject(tx, one.id, ProcedureName.TRY_UPGRADE, 1) for one in trials}
    return [_upgrade(one, tried[one.id], switches) for one in trials]


def get_upgrade(plane: Plane, project_id: str, service_id: str, upgrade_id: str) -> Upgrade:
    """Return one upgrade of a service. Raises NotFound."""
    found = next((one for one in list_upgrades(plane, project_id, service_id) if one.trial.id == upgrade_id), None)
    if found is None:
        raise NotFound("UPGRADE_NOT_FOUND", f"service {service_id} has no upgrade {upgrade_id[:64]!r}")
    return found


def _checked(plane: Plane, project_id: str, service_id: str, request: UpgradeRequest) -> tuple[Service, UpgradeFacts]:
    """Return the service, and what was found in it. Raises Invalid, naming all that speaks against the upgrade."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
    check_independent(service, "upgrade")
    _check_ready(service)
    if request.keeps and not request.is_trial:
        raise Invalid(
            "CONTRADICTION", "keep_fork can be true only with trial true", "The service before remains in any case."
        )
    _check_version(plane, service, request.to_major)
    facts = plane.backend.upgrades.examine(server_of(service), request.to_major)
    obstacle = None if request.is_trial else find_obstacle(plane.store, plane.backend, service)
    if obstacle is not None:
        facts = replace(facts, refusals=(*facts.refusals, obstacle))
    if facts.refusals:
        raise Invalid(
            "UPGRADE_REFUSED",
            f"Service {service.id} cannot be upgraded to PostgreSQL {facts.to_version}:"
            f" {facts.refusals[0].subject}: {facts.refusals[0].message}",
            "\n".join(_in_words(one) for one in facts.refusals[:_SHOWN_REFUSALS]),
        )
    return service, facts


def _within_limits(plane: Plane, tx: sa.Connection, plan: ForkPlan) -> Service:
    """Return a fork that remains, as any other is given. It does not fall asleep: it has no port for that."""
    (fork,) = within_limits(plane, tx, [plan.fork], plan.parent)
    return replace(fork, sleep_after_seconds=None)


def _check_ready(service: Service) -> None:
    """Raise the error for a service that is not READY: one that is asleep, or falls asleep, is not."""
    if status_of(service) is not Status.READY:
        raise wrong_state(service, "upgrade", (Status.READY,))


def _check_alone(tx: sa.Connection, service: Service) -> None:
    """Raise WrongState while another upgrade of a service is tried: it does not claim the service yet."""
    for one in services.trials_of_upgrades(tx, service.id):
        is_tried = one.activity is not None and one.activity.procedure == ProcedureName.TRY_UPGRADE
        if is_tried and one.report is not None and not one.report["upgrade"]["is_trial"]:
            raise WrongState(
                "UPGRADE_UNDER_WAY",
                f"The upgrade {one.id} of service {service.id} is under way",
                f"See 'ramet service upgrades {service.id}'. To end it before the service is stopped, delete {one.id}.",
            )


def _check_version(plane: Plane, service: Service, to_major: int) -> None:
    later = later_majors(plane, service)
    if to_major not in later:
        there = " or ".join(map(str, later)) or "none"
        raise Invalid(
            "INVALID_VERSION",
            f"to_version must be a later version than {service.pg_major} that this host has: {there} (got {to_major})",
            "Install that version of PostgreSQL, or name its directory of programs in RAMET_PG_BIN, and restart Ramet.",
        )
    host = plane.backend.host
    host.check_service_type(service.service_type, to_major)
    plane.placement.check_tls(to_major, has_tls=host.has_tls(to_major))
    if endpoint_host(plane, to_major) != service.host:
        raise Invalid(
            "TLS_MISSING",
            f"PostgreSQL {to_major} on this host was built without TLS, so that the endpoint of service {service.id}"
            f" could not stay at {service.host}",
            f"Install a PostgreSQL {to_major} that has TLS.",
        )


def _first_report(facts: UpgradeFacts, request: UpgradeRequest) -> dict[str, Any]:
    return {
        "from_version": facts.from_version,
        "to_version": facts.to_version,
        "keeps": request.keeps,
        "is_trial": request.is_trial,
        "extensions": msgspec.to_builtins(facts.extensions),
        "statements_note": facts.statements_note,
    }


def _upgrade(trial: Service, tries: list[operations.Operation], switches: list[operations.Operation]) -> Upgrade:
    origin = trial.origin
    if origin is None or trial.report is None:
        raise no_service(trial.id)
    switch = next((one for one in switches if one.state["previous_id"] == trial.id), None)
    found = switch or next(iter(tries), None)
    report: dict[str, Any] = trial.report["upgrade"]
    if found is None:  # the history has expired
        status = OperationStatus.SUCCEEDED if trial.failed_at is None else OperationStatus.FAILED
        return Upgrade(trial, origin.service_id, status, None, "", trial.failure, trial.created_at, None, report)
    is_over = found.finished_at is not None
    return Upgrade(
        trial=trial,
        service_id=origin.service_id,
        status=OperationStatus(found.status),
        step=None if is_over else SPECS[found.procedure].steps.get(found.step),
        progress=found.progress,
        error=found.error,
        started_at=found.created_at,
        finished_at=found.finished_at,
        report=report,
    )


def _in_words(refusal: Refusal) -> str:
    return f"{refusal.subject}: {refusal.message}. {refusal.remedy}"
