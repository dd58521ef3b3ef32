"""Fork reports: what a fork was created from, and how long each step took."""

from dataclasses import dataclass

from ramet.control.lookup import find_service
from ramet.control.plane import Plane
from ramet.errors import NotFound, WrongState
from ramet.model.fork import parse_target_time
from ramet.model.fork_report import CaptureFacts, ForkFacts, fork_facts
from ramet.model.procedures import ProcedureName
from ramet.model.service import Origin, Service, status_of
from ramet.model.snapshot import Snapshot
from ramet.model.timestamps import rfc3339
from ramet.store import operations, snapshots


@dataclass(frozen=True)
class ForkReport:
    """A READY fork, where it came from, and what its operation found. `base` is None once that snapshot is deleted."""

    service: Service
    origin: Origin
    facts: ForkFacts
    base: Snapshot | None
    step_seconds: dict[str, float]


@dataclass(frozen=True)
class LeftBehind:
    """What a fork does not have of its parent, and what to do about it."""

    what: str
    names: list[str]
    remedy: str


def fork_report(plane: Plane, project_id: str, service_id: str) -> ForkReport:
    """Return the report of a fork. Raises NotFound for no fork, WrongState for a fork before READY."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        origin = service.origin
        if origin is None:
            raise NotFound("NO_FORK", f"Service {service.id} is not a fork, so it has no fork report")
        if not has_fork_report(service):
            raise WrongState(
                "INVALID_STATE",
                f"Service {service.id} is {status_of(service)}; its fork report is written when it becomes READY",
                service.failure or "Wait until it is READY, then try again.",
            )
        known = snapshots.list_snapshots(tx, origin.service_id)
        made = operations.of_subject(tx, service.id, ProcedureName.FORK)
        events = operations.events_of(tx, [made[-1].id]).get(made[-1].id, ()) if made else ()
    base = next((snapshot for snapshot in known if snapshot.id == origin.snapshot_id), None)
    seconds: dict[str, float] = {}
    for event in events:
        if event.outcome == "DONE":  # more than once where a server was killed and started again
            seconds[event.step] = seconds.get(event.step, 0.0) + event.seconds
    return ForkReport(service, origin, fork_facts(service.report or {}), base, seconds)


def has_fork_report(service: Service) -> bool:
    """Tell whether a service is a fork whose report is written; the reports of imports and of upgrades are others."""
    return service.origin is not None and "capture" in (service.report or {})


def left_behind(report: ForkReport) -> list[LeftBehind]:
    """Return what the fork does not have of its parent."""
    found, facts = [], report.facts
    if facts.unlogged_tables and not facts.capture.clean:
        found.append(LeftBehind("rows of unlogged tables", facts.unlogged_tables, "They are empty; fill them again."))
    statistics = facts.statistics
    remedy = "ANALYZE runs in the background." if statistics is None else f"ANALYZE ran: {statistics}."
    found.append(LeftBehind("cumulative statistics", [], remedy))
    found.append(LeftBehind("replication slots", [], "They stay with the parent."))
    return found


def checks_of(report: ForkReport) -> list[str]:
    """Return sentences that say what was verified before the fork was READY."""
    captured, recovered = report.facts.capture, report.facts.recovery
    checks, archive, cut = _checks_of_copy(captured), captured.archive, captured.cut
    if captured.clean:
        return [*checks, "The parent's server was shut down cleanly, before and after the copy."]
    if cut is None and captured.checks is not None:
        return checks
    if cut is None:
        return [*checks, f"Recovery reached the end of the copy at {captured.end_lsn or 'its end'}."]
    if cut.first_excluded is None:
        where = "the parent's WAL" if archive is None else "the off-host archive"
        return [*checks, f"Recovery reached the last transaction in {where}."]
    target = "" if report.origin.target_time is None else rfc3339(parse_target_time(report.origin.target_time))
    excluded, last = recovered.first_excluded_time, recovered.last_commit_time
    latest = f"The last transaction in the fork was committed at {last}, not after {target}."
    return [
        *checks,
        f"Recovery stopped before the transaction of {excluded}, which ended after {target}.",
        latest if last else f"No commit was replayed: the WAL between the snapshot and {target} contains none.",
        f"The fork is on its own timeline, {recovered.timeline}.",
    ]


def _checks_of_copy(captured: CaptureFacts) -> list[str]:
    """Return what was verified of the files that a fork began with: by the backend's own word, if it has one."""
    if captured.checks is not None:
        return captured.checks
    archive = captured.archive
    whole = ["Each WAL segment was complete, and belonged to the parent's cluster, timeline and position."]
    if archive is None or archive.url is None:
        return whole
    return [f"Each part of base backup {archive.base_backup} had its SHA-256 checksum.", *whole]
