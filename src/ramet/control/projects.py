"""Projects and the API keys that open them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from ramet.errors import NotFound, Unauthorized
from ramet.ids import new_id
from ramet.model.passwords import Secret
from ramet.model.project import ApiKey, Project, ProjectLimits, check_limits, digest_secret, matches, new_key_pair
from ramet.model.service import check_name
from ramet.store import projects
from ramet.store.database import Store

_NO_DIGEST = "0" * 64


@dataclass(frozen=True)
class Projects:
    """The verbs over projects and keys."""

    store: Store

    def create_project(self, name: str, now: datetime) -> Project:
        """Make a project."""
        project = Project(new_id(), check_name(name), now)
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
            found = projects.get_project(tx, project_id)
        if found is None:
            raise _no_project(project_id)
        return found

    def change_limits(self, project_id: str, changes: Mapping[str, int | None]) -> ProjectLimits:
        """Change what a project may have, and return all of it; None removes a limit. Raises NotFound and Invalid."""
        with self.store.write() as tx:
            found = projects.get_project(tx, project_id)
            if found is None:
                raise _no_project(project_id)
            limits = check_limits(replace(found.limits, **changes))
            projects.set_limits(tx, project_id, limits)
        return limits

    def create_key(self, project_id: str, name: str, now: datetime) -> tuple[ApiKey, Secret]:
        """Make a key of a project and return it with its secret, which is kept nowhere."""
        self.get_project(project_id)
        public_key, secret = new_key_pair()
        key = ApiKey(public_key, project_id, name, digest_secret(secret), now)
        with self.store.write() as tx:
            projects.insert_key(tx, key)
        return key, secret

    def list_keys(self, project_id: str) -> list[ApiKey]:
        """Return the keys of a project, revoked ones too."""
        self.get_project(project_id)
        with self.store.read() as tx:
            return projects.list_keys(tx, project_id)

    def revoke_key(self, public_key: str, now: datetime) -> None:
        """Revoke a key; it opens nothing from now on. Raises NotFound."""
        with self.store.write() as tx:
            if projects.find_key(tx, public_key) is None:
                raise NotFound("KEY_NOT_FOUND", "no key with that public key exists", f"public_key {public_key!r}")
            projects.revoke_key(tx, public_key, now)

    def active_key(self, public_key: str) -> ApiKey:
        """Return a key that opens its project, for who proved to have it before. Raises Unauthorized."""
        with self.store.read() as tx:
            found = projects.find_key(tx, public_key)
        if found is None or found.revoked_at is not None:
            raise Unauthorized("UNAUTHORIZED", "The API key is revoked", "Sign in with another one.")
        return found

    def authenticate(self, public_key: str, secret: Secret) -> ApiKey:
        """Return the key that the credentials belong to. Raises Unauthorized; takes as long for unknown keys."""
        with self.store.read() as tx:
            found = projects.find_key(tx, public_key)
        key = found or ApiKey(public_key, "", "", _NO_DIGEST, datetime.min.replace(tzinfo=UTC))
        if not matches(key, secret):
            raise Unauthorized(
                "UNAUTHORIZED",
                "The API key is unknown, revoked, or its secret is wrong",
                "Send 'Authorization: Basic' with public_key:secret_key, or make a key with 'ramet key create'.",
            )
        return key


def _no_project(project_id: str) -> NotFound:
    return NotFound("PROJECT_NOT_FOUND", "no project with that id exists", f"project_id {project_id[:64]!r}")
