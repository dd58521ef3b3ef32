"""The verbs over services that follow databases elsewhere: check a source, follow it, promote the service."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from ramet.backends.interface.followers import UpstreamFacts
from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.control.idempotency import earlier_answer
from ramet.control.lookup import claim, find_service, wrong_state
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host
from ramet.control.requests import Accepted
from ramet.control.services import accept_new, checked_request
from ramet.control.slots import examining
from ramet.endpoints import DATABASE
from ramet.errors import Invalid, WrongState
from ramet.followers.logical import plan_logical
from ramet.followers.report import judge, type_of_standby
from ramet.ids import new_id
from ramet.imports.findings import refuse
from ramet.imports.source_url import parse_source
from ramet.imports.verbs import SourcePlan, SourceRequest, check_source_password
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, is_standby, status_of
from ramet.model.snapshot import is_lsn
from ramet.model.status import Status
from ramet.model.upstream import FollowMethod, Upstream
from ramet.procedures.state import FollowState, ImportState, PromoteState
from ramet.store import operations

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_ARCHIVE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PLATFORM_ROLE, _MOVER_ROLE = "ramet", "pg_ramet_mover"


@dataclass(frozen=True)
class FollowRequest(SourceRequest):
    """A standby of the server whose database `url` names.

    `slot` is a physical replication slot that exists there; with `creates_slot` the service gets one of its own.
    `archive` names a directory of this host with the archived WAL of the source.
    """

    slot: str | None = None
    method: FollowMethod = FollowMethod.PHYSICAL
    creates_slot: bool = False
    archive: str | None = None


@dataclass(frozen=True)
class FollowPlan(SourcePlan):
    """What following a source would do. With the logical method `facts` are those of one database."""

    facts: UpstreamFacts | SourceFacts

    @property
    def databases(self) -> list[str]:
        """The databases that the service would have."""
        return list(self.facts.databases) if isinstance(self.facts, UpstreamFacts) else [self.source.database]

    @property
    def report(self) -> dict[str, Any]:
        """The report as it is stored."""
        return super().report | {"databases": self.databases}


def plan_follow(plane: Plane, project_id: str, request: FollowRequest) -> FollowPlan:
    """Examine a source, and return what following it would do. Nothing is made."""
    source = parse_source(request.url, request.root_certificate)
    wanted = checked_request(plane, project_id, request.create)
    check_source_password(request.password)
    _check_replication(request)
    if request.method is FollowMethod.LOGICAL:
        with examining(plane.examinations, project_id):
            return FollowPlan(source, *plan_logical(plane, source, request.password, wanted, request.create.pg_major))
    _check_is_trusted(plane, source)
    with examining(plane.examinations, project_id):
        facts, host = plane.backend.followers.examine(source, request.password, request.archive)
    findings = judge(facts, host, slot=request.slot, makes_slot=request.creates_slot, pg_major=request.create.pg_major)
    if facts.major in host.majors:
        wanted = replace(wanted, pg_major=facts.major, host=endpoint_host(plane, facts.major))
    service_type = type_of_standby(facts, wanted.service_type)
    wanted = replace(wanted, service_type=service_type, upstream=_upstream(source, facts, request))
    return FollowPlan(source, facts, findings, wanted)


def follow_service(
    plane: Plane, project_id: str, request: FollowRequest, idempotency_key: str | None = None
) -> Accepted:
    """Accept a service that follows a database elsewhere. Raises Invalid with all that speaks against it."""
    if (earlier := earlier_answer(plane, project_id, idempotency_key, request)) is not None:
        return earlier
    plan = plan_follow(plane, project_id, request)
    refuse(plan.findings, "FOLLOW_REFUSED", f"{plan.source} cannot be followed")
    major = plan.service.pg_major
    plane.placement.check_tls(major, has_tls=plane.backend.host.has_tls(major))
    procedure, state = _operation(plan, plane.backend.sources.seal(request.password))
    return accept_new(plane, project_id, request, idempotency_key, plan.service, procedure, state)


def promote_service(
    plane: Plane,
    project_id: str,
    service_id: str,
    *,
    lsn: str | None,
    drain: bool,
    neutralize: bool,
    takes_place: bool = False,
) -> Service:
    """Accept the promotion of a service that follows a source; it serves reads until the end of recovery.

    With `lsn` it waits until that is replayed, with `drain` until the source was shut down and all of it is here.
    With `takes_place` it is the service of another Ramet that it follows, from then on.
    """
    if lsn is not None and not is_lsn(lsn):
        raise Invalid("INVALID_FIELD", f"wait_for_lsn must be of the form 16/B374D848 (got {lsn[:32]!r})")
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if service.upstream is None:
            raise WrongState("NOT_FOLLOWING", f"Service {service.id} follows no source, so it cannot be promoted")
        activity, interrupted = service.activity, None
        if activity is not None and activity.procedure in SPECS[ProcedureName.PROMOTE].interrupts:
            operations.cancel(tx, activity.operation_id)
            interrupted, activity = activity.operation_id, None
        if status_of(service) not in (Status.READY, Status.UNSTABLE) or activity is not None or service.failed_at:
            raise wrong_state(service, "promote", (Status.READY,))
        if takes_place:
            _check_is_copy_of_service(service, neutralize=neutralize)
        if not is_standby(service) and (lsn is not None or drain or neutralize or takes_place):
            raise Invalid(
                "INVALID_FIELD",
                "wait_for_lsn, drain, neutralize and take_place are for the method PHYSICAL",
                "Stop the writers of the source, then promote without them: what it has committed is awaited.",
            )
        if (lsn is not None or drain) and not takes_place:
            _check_continues(service)
        procedure = ProcedureName.PROMOTE if is_standby(service) else ProcedureName.PROMOTE_LOGICAL
        return claim(
            plane,
            tx,
            service,
            procedure,
            PromoteState(lsn=lsn, drain=drain, quiet=neutralize, takes_place=takes_place, interrupted=interrupted),
        )


def _check_continues(service: Service) -> None:
    """Raise WrongState for a standby that is not on the way of its source any more: no LSN says what it lacks."""
    if service.following is not None and service.following.needs_copy:
        raise WrongState(
            "COPY_NEEDED",
            f"Service {service.id} lacks what its source has committed since: {service.following.problem}",
            "Wait until the source was copied again, or promote the service without wait_for_lsn and drain, as it is.",
        )


def _check_is_copy_of_service(service: Service, *, neutralize: bool) -> None:
    """Raise Invalid for a copy that cannot take the place of its source: that is no service of a Ramet."""
    source = service.upstream
    if neutralize:
        raise Invalid("INVALID_FIELD", "take_place and neutralize exclude each other", "Send one of them.")
    if source is None or source.database != DATABASE or not _is_service(source):
        raise Invalid(
            "NO_SERVICE_FOLLOWED",
            f"Service {service.id} follows {source}, which is no service of a Ramet, so it cannot take its place",
            "Promote it without take_place.",
        )


def _is_service(source: Upstream) -> bool:
    return source.user == _MOVER_ROLE or source.bootstrap_role == _PLATFORM_ROLE


def _operation(plan: FollowPlan, sealed: str) -> tuple[ProcedureName, FollowState | ImportState]:
    """Return the procedure that makes the service, and what it has to know."""
    facts, snapshot_id, report = plan.facts, new_id(), plan.report
    if isinstance(facts, UpstreamFacts):
        size = facts.size_bytes
        return ProcedureName.FOLLOW, FollowState(snapshot_id=snapshot_id, sealed=sealed, size_bytes=size, report=report)
    return ProcedureName.FOLLOW_LOGICAL, ImportState(
        snapshot_id=snapshot_id, source=plan.source, facts=facts, owners=True, sealed=sealed, report=report
    )


def _check_is_trusted(plane: Plane, source: SourceAddress) -> None:
    """Raise Invalid for a server whose superusers the operator has not trusted with this host: a standby obeys them."""
    if plane.standby_sources is not None and source.host not in plane.standby_sources:
        raise Invalid(
            "SOURCE_NOT_TRUSTED",
            f"{source.host} is none of the servers that services may follow here with the method PHYSICAL",
            "The operator of Ramet names it in RAMET_STANDBY_SOURCES. Or use LOGICAL, or import the database.",
        )


def _check_replication(request: FollowRequest) -> None:
    """Check the slot and the archive that a request names. Raises Invalid."""
    named = {
        "slot": request.slot is not None,
        "create_slot": request.creates_slot,
        "archive": request.archive is not None,
    }
    if request.method is FollowMethod.LOGICAL and any(named.values()):
        wrong = ", ".join(name for name, is_given in named.items() if is_given)
        raise Invalid(
            "INVALID_FIELD", f"{wrong}: for the method PHYSICAL only", "Omit it: the method LOGICAL makes a slot."
        )
    if request.slot is not None and request.creates_slot:
        raise Invalid("INVALID_FIELD", "slot and create_slot exclude each other", "Send one of them.")
    if request.slot is not None and _SLOT.fullmatch(request.slot) is None:
        raise Invalid(
            "INVALID_FIELD",
            f"slot must have 1 to 63 characters a to z, 0 to 9 and _ (got {request.slot[:64]!r})",
        )
    if request.archive is not None and _ARCHIVE.fullmatch(request.archive) is None:
        raise Invalid(
            "INVALID_FIELD",
            "archive must have 1 to 63 letters, digits and ._- and begin with a letter or digit"
            f" (got {request.archive[:64]!r})",
            "It is the name of a subdirectory of RAMET_SOURCE_ARCHIVES on the host of Ramet.",
        )


def _upstream(source: SourceAddress, facts: UpstreamFacts, request: FollowRequest) -> Upstream:
    return Upstream(
        method=FollowMethod.PHYSICAL,
        **asdict(source),
        system_identifier=facts.system_identifier,
        bootstrap_role=facts.bootstrap_role,
        slot=request.slot,
        makes_slot=request.creates_slot,
        archive=request.archive,
    )
