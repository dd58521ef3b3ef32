"""Services that follow databases elsewhere, and their promotion."""

from litestar import Response
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody

from ramet.api.parameters import DryRun, IdempotencyKey, ProjectId, ServiceId, checked_key
from ramet.api.responses import OF_PROJECT, PlaneDependency, accept, answer, router_of
from ramet.api.routes.services import accepted_service, create_request, named_type, source_fields
from ramet.api.schemas.following import FollowReport, ServiceFollow, ServicePromote
from ramet.api.schemas.imports import ImportFinding
from ramet.api.schemas.services import Service
from ramet.api.shapes import service_shape
from ramet.followers import verbs
from ramet.followers.verbs import FollowPlan, FollowRequest
from ramet.model.upstream import FollowMethod

_REPORTED = ResponseSpec(FollowReport, generate_examples=False, description="With dry_run: what would be made.")


@accept("/followers", operation_id="followDatabase", summary="Follow a database", responses={200: _REPORTED})
def follow_database(
    plane: PlaneDependency,
    project_id: ProjectId,
    data: JSONBody[ServiceFollow],
    idempotency_key: IdempotencyKey = None,
    dry_run: DryRun = False,
) -> Response[Service]:
    """Accept a new service that follows a server elsewhere, after that was examined.

    With the method PHYSICAL it is a read-only standby of all of it; with LOGICAL it subscribes to one database.
    It can be forked like any other. A source that cannot be followed is refused with all reasons.
    With dry_run nothing is created, and the response is 200 with the report.
    """
    request = FollowRequest(
        create=create_request(data, service_type=named_type(data.service_type)),
        **source_fields(data),
        slot=data.slot,
        creates_slot=data.create_slot is True,
        archive=data.archive,
        method=data.method or FollowMethod.PHYSICAL,
    )
    if dry_run:
        return answer(_report(verbs.plan_follow(plane, project_id, request)))
    return accepted_service(verbs.follow_service(plane, project_id, request, checked_key(idempotency_key)))


@accept("/services/{service_id:str}/promote", operation_id="promoteService", summary="Promote a service that follows")
def promote_service(
    plane: PlaneDependency, project_id: ProjectId, service_id: ServiceId, data: JSONBody[ServicePromote]
) -> Response[Service]:
    """Accept the promotion of a service that follows a database elsewhere: it becomes independent.

    Its admin gets the password from when it was created; other roles keep theirs unless it is neutralized.
    """
    promoted = verbs.promote_service(
        plane,
        project_id,
        service_id,
        lsn=data.wait_for_lsn,
        drain=data.drain is True,
        neutralize=data.neutralize is True,
        takes_place=data.take_place is True,
    )
    return answer(service_shape(promoted), 202)


def _report(plan: FollowPlan) -> FollowReport:
    return FollowReport(
        source=str(plan.source),
        version=plan.facts.version,
        size_bytes=plan.facts.size_bytes,
        databases=plan.databases,
        findings=[ImportFinding(one.effect, one.subject, one.message, one.remedy) for one in plan.findings],
    )


following_router = router_of(__name__, "Services", OF_PROJECT)
