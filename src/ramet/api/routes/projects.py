"""Projects. An API key belongs to exactly one."""

from typing import Any

from litestar import Request, Response

from ramet.api.responses import ProjectVerbs, answer, read
from ramet.api.schemas.projects import Project
from ramet.model.project import ApiKey


@read("/projects", operation_id="getProjects", summary="List projects", tags=["Projects"])
def list_projects(projects: ProjectVerbs, request: Request[Any, ApiKey, Any]) -> Response[list[Project]]:
    """The project of the request's API key."""
    project = projects.get_project(request.auth.project_id)
    return answer([Project(project.id, project.name)])
