"""The API key of a request, its project, and what has no effect here: logout, and the analytics of clients."""

from typing import Any

from litestar import Request, Response, post
from litestar.params import JSONBody

from ramet.api.errors import REFUSES
from ramet.api.parameters import ProjectId
from ramet.api.responses import PlaneDependency, ProjectVerbs, answer, empty, read
from ramet.api.schemas.account import (
    AnalyticsResult,
    AuthInfo,
    AuthInfoApiKey,
    AuthInfoIssuingUser,
    AuthInfoParent,
    AuthInfoProject,
    CertificateAuthority,
    IdentifyUser,
    Logout,
    Project,
    ProjectLimits,
    QuotaUse,
    TrackEvent,
)
from ramet.control.authority import certificate_authority
from ramet.control.key_limits import list_parents
from ramet.control.quotas import project_use
from ramet.control.recording import UNRECORDED
from ramet.model import project as model
from ramet.model.keys import ApiKey

_THANKS = AnalyticsResult("success")


@read("/projects", operation_id="getProjects", summary="List projects", tags=["Projects"])
def list_projects(projects: ProjectVerbs, request: Request[Any, ApiKey, Any]) -> Response[list[Project]]:
    """The project of the request's API key."""
    project = projects.get_project(request.auth.project_id)
    return answer([Project(project.id, project.name)])


@read(
    "/projects/{project_id:str}/limits",
    operation_id="getProjectLimits",
    summary="Get the limits of a project",
    tags=["Projects"],
)
def get_project_limits(
    plane: PlaneDependency, projects: ProjectVerbs, project_id: ProjectId
) -> Response[ProjectLimits]:
    """What the project may have, what its services use up of that, and how long its forks may live."""
    limits, use = projects.get_project(project_id).limits, project_use(plane, project_id)
    known = {name: getattr(limits, name) for name in limits.__struct_fields__}
    used = QuotaUse(use.services, use.forks, use.cpu_millis, use.memory_gbs, use.storage_gbs)
    return answer(ProjectLimits(**known, used=used))


@read(
    "/certificate-authority",
    operation_id="getCertificateAuthority",
    summary="Get the certificate authority",
    tags=["Projects"],
    opt={REFUSES: True},
)
def get_certificate_authority(plane: PlaneDependency) -> Response[CertificateAuthority]:
    """The authority that the certificates of all endpoints are of."""
    found = certificate_authority(plane)
    return answer(CertificateAuthority(found.certificate, found.sha256_fingerprint))


@read("/auth/info", operation_id="getAuthInfo", summary="Get the API key in use", tags=["Authentication"])
def get_auth_info(
    plane: PlaneDependency, projects: ProjectVerbs, request: Request[Any, ApiKey, Any]
) -> Response[AuthInfo]:
    """The API key of the request, its role, and its project."""
    parents = [AuthInfoParent(one.id, one.name) for one in list_parents(plane)]
    return answer(_auth_info_shape(request.auth, projects.get_project(request.auth.project_id), parents))


@post(
    "/auth/logout",
    operation_id="logout",
    summary="End a session",
    tags=["Authentication"],
    status_code=204,
    opt=UNRECORDED,
)
async def logout(data: JSONBody[Logout | None] = None) -> Response[None]:
    """Do nothing: API keys have no session to end. Revoke the key to end its use."""
    return empty(204)


@post(
    "/analytics/identify",
    operation_id="identifyUser",
    summary="Identify a user",
    tags=["Analytics"],
    status_code=200,
    opt=UNRECORDED,
)
async def identify_user(data: JSONBody[IdentifyUser | None] = None) -> Response[AnalyticsResult]:
    """Accept and discard it."""
    return answer(_THANKS)


@post(
    "/analytics/track",
    operation_id="trackEvent",
    summary="Track an event",
    tags=["Analytics"],
    status_code=200,
    opt=UNRECORDED,
)
async def track_event(data: JSONBody[TrackEvent]) -> Response[AnalyticsResult]:
    """Accept and discard it."""
    return answer(_THANKS)


def _auth_info_shape(key: ApiKey, project: model.Project, parents: list[AuthInfoParent]) -> AuthInfo:
    """Return what clients see of their key. Ramet has no users, so the issuing user is the key itself."""
    holder = AuthInfoIssuingUser(key.public_key, key.name, f"{key.public_key.lower()}@keys.ramet.invalid")
    of_key = AuthInfoProject(project.id, project.name, "self-hosted")
    shape = AuthInfoApiKey(
        key.public_key, key.name, key.created_at, of_key, holder, key.role, key.expires_at, parents or None
    )
    return AuthInfo("apiKey", shape, shape)
