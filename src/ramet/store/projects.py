"""Rows of projects and of the API keys that open them."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet.model.project import NO_LIMITS, ApiKey, Project, ProjectLimits
from ramet.store.tables import api_key, project

_key_of = api_key.select().where(api_key.c.public_key == sa.bindparam("public_key"))


def insert_project(tx: sa.Connection, new: Project) -> None:
    """Add a project."""
    columns = {"id": new.id, "name": new.name, "created_at": new.created_at, "limits": _limits_column(new.limits)}
    tx.execute(project.insert(), columns)


def get_project(tx: sa.Connection, project_id: str) -> Project | None:
    """Return a project, or None."""
    row = tx.execute(project.select().where(project.c.id == project_id)).one_or_none()
    return None if row is None else _project(row)


def list_projects(tx: sa.Connection) -> list[Project]:
    """Return all projects, oldest first."""
    rows = tx.execute(project.select().order_by(project.c.created_at, project.c.id))
    return [_project(row) for row in rows]


def set_limits(tx: sa.Connection, project_id: str, limits: ProjectLimits) -> None:
    """Set what a project may have."""
    tx.execute(project.update().where(project.c.id == project_id).values(limits=_limits_column(limits)))


def insert_key(tx: sa.Connection, key: ApiKey) -> None:
    """Add a key."""
    tx.execute(api_key.insert(), asdict(key))


def find_key(tx: sa.Connection, public_key: str) -> ApiKey | None:
    """Return a key, revoked or not, or None."""
    row = tx.execute(_key_of, {"public_key": public_key}).one_or_none()
    return None if row is None else _key(row)


def list_keys(tx: sa.Connection, project_id: str) -> list[ApiKey]:
    """Return the keys of a project, oldest first."""
    query = api_key.select().where(api_key.c.project_id == project_id)
    return [_key(row) for row in tx.execute(query.order_by(api_key.c.created_at, api_key.c.public_key))]


def revoke_key(tx: sa.Connection, public_key: str, now: datetime) -> None:
    """Mark a key as revoked; the first time counts."""
    unrevoked = (api_key.c.public_key == public_key) & api_key.c.revoked_at.is_(None)
    tx.execute(api_key.update().where(unrevoked).values(revoked_at=now))


def _project(row: sa.Row[Any]) -> Project:
    limits = NO_LIMITS if row.limits is None else msgspec.convert(row.limits, ProjectLimits)
    return Project(row.id, row.name, row.created_at, limits)


def _limits_column(limits: ProjectLimits) -> dict[str, int] | None:
    return msgspec.to_builtins(limits) or None


def _key(row: sa.Row[Any]) -> ApiKey:
    return ApiKey(row.public_key, row.project_id, row.name, row.secret_digest, row.created_at, row.revoked_at)
