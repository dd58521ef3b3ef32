"""The API key of a request, and the end of a session, which does nothing: keys have no sessions."""

from typing import Any

from litestar import Request, Response, post
from litestar.params import JSONBody

from ramet.api.responses import ProjectVerbs, answer, empty, read
from ramet.api.schemas.account import AuthInfo, AuthInfoApiKey, AuthInfoIssuingUser, AuthInfoProject, Logout
from ramet.model.project import ApiKey, Project


@read("/auth/info", operation_id="getAuthInfo", summary="Get the API key in use", tags=["Authentication"])
def get_auth_info(projects: ProjectVerbs, request: Request[Any, ApiKey, Any]) -> Response[AuthInfo]:
    """The API key of the request, and its project."""
    return answer(_auth_info_shape(request.auth, projects.get_project(request.auth.project_id)))


@post(
    "/auth/logout",
    operation_id="logout",
    summary="End a session",
    tags=["Authentication"],
    status_code=204,
)
async def logout(data: JSONBody[Logout | None] = None) -> Response[None]:
    """Do nothing: API keys have no session to end. Revoke the key to end its use."""
    return empty(204)


def _auth_info_shape(key: ApiKey, project: Project) -> AuthInfo:
    """Return what clients see of their key. Ramet has no users, so the issuing user is the key itself."""
    holder = AuthInfoIssuingUser(key.public_key, key.name, f"{key.public_key.lower()}@keys.ramet.invalid")
    shape = AuthInfoApiKey(
        public_key=key.public_key,
        name=key.name,
        created=key.created_at,
        project=AuthInfoProject(project.id, project.name, "self-hosted"),
        issuing_user=holder,
    )
    return AuthInfo("apiKey", shape, shape)
