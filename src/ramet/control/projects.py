"""Projects, and the API keys that open them."""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from ramet import acting
from ramet.control.keys import Keys
from ramet.control.lookup import find_project
from ramet.ids import new_id
from ramet.model.names import check_name
from ramet.model.project import Project, ProjectLimits, check_limits
from ramet.store import projects


class Projects(Keys):
    """The verbs over projects, and those over their keys."""

    def create_project(self, name: str, now: datetime) -> Project:
        """Make a project."""
        project = Project(new_id(), check_name(name), now)
        acting.note(project_id=project.id, subject=project.id)
        with self.store.write() as tx:
            projects.insert_project(tx, project)
        return project

    def list_projects(self) -> list[Project]:
        """Return all projects, oldest first."""
        with self.store.read() as tx:
            return projects.list_projects(tx)

    def get_project(self, project_id: str) -> Project:
        """Return a project. Raises NotFound."""
        with self.store.read() as tx:
            return find_project(tx, project_id)

    def change_limits(self, project_id: str, changes: Mapping[str, int | None]) -> ProjectLimits:
        """Change what a project may have, and return all of it; None removes a limit. Raises NotFound and Invalid."""
        with self.store.write() as tx:
            found = find_project(tx, project_id, lock=True)
            acting.note(project_id=project_id)
            limits = check_limits(replace(found.limits, **changes))
            projects.set_limits(tx, project_id, limits)
        return limits
