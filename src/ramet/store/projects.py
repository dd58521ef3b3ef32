"""Rows of projects."""

from typing import Any

import msgspec
import sqlalchemy as sa

from ramet.model.project import NO_LIMITS, Project, ProjectLimits
from ramet.store.database import locking
from ramet.store.tables import project

_one = project.select().where(project.c.id == sa.bindparam("project_id"))


def insert_project(tx: sa.Connection, new: Project) -> None:
    """Add a project."""
    columns = {"id": new.id, "name": new.name, "created_at": new.created_at, "limits": _limits_column(new.limits)}
    tx.execute(project.insert(), columns)


def get_project(tx: sa.Connection, project_id: str, *, lock: bool = False) -> Project | None:
    """Return a project, or None. One that is locked is not changed before the transaction ends."""
    row = tx.execute(locking(_one) if lock else _one, {"project_id": project_id}).one_or_none()
    return None if row is None else _project(row)


def list_projects(tx: sa.Connection) -> list[Project]:
    """Return all projects, oldest first."""
    rows = tx.execute(project.select().order_by(project.c.created_at, project.c.id))
    return [_project(row) for row in rows]


def set_limits(tx: sa.Connection, project_id: str, limits: ProjectLimits) -> None:
    """Set what a project may have."""
    tx.execute(project.update().where(project.c.id == project_id).values(limits=_limits_column(limits)))


def _project(row: sa.Row[Any]) -> Project:
    limits = NO_LIMITS if row.limits is None else msgspec.convert(row.limits, ProjectLimits)
    return Project(row.id, row.name, row.created_at, limits)


def _limits_column(limits: ProjectLimits) -> dict[str, int] | None:
    return msgspec.to_builtins(limits) or None
