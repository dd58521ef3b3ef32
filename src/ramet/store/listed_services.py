"""The list of a project's services, and marks that say which of them are others than before."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.model.service import Service
from ramet.model.status import FAILED_SHOWN_FOR
from ramet.store.metrics import usage_columns
from ramet.store.service_rows import WITHOUT_REPORT, service_of_row
from ramet.store.tables import last_usage, operation, service

Position = tuple[datetime, str]
_is_visible = sa.and_(
    service.c.project_id == sa.bindparam("project_id"),
    service.c.deleted_at.is_(None),
    service.c.unclaimed.is_(False),
    service.c.failed_at.is_(None) | (service.c.failed_at > sa.bindparam("shown_since")),
)
_visible = WITHOUT_REPORT.where(_is_visible).order_by(service.c.created_at, service.c.id)
# What differs whenever a row of the list differs: all that it is made of, or the versions of the rows it is read from.
_MARKS = {
    "sqlite": sa.func.json_array(*WITHOUT_REPORT.selected_columns, type_=sa.Text()),
    "postgresql": sa.func.concat_ws(
        " ",
        *(
            sa.literal_column(f"CAST({table}.{name} AS text)")
            for table in ("service", "operation")
            for name in ("xmin", "ctid")
        ),
        type_=sa.Text(),
    ),
}


def _with_marks(mark: sa.ColumnElement[str]) -> sa.Select[Any]:
    usage = usage_columns(sa.bindparam("used_since"))
    rows = service.outerjoin(operation, service.c.operation_id == operation.c.id)
    rows = rows.outerjoin(last_usage, last_usage.c.subject == service.c.id)
    listed = sa.select(service.c.id, mark, *usage).select_from(rows).where(_is_visible)
    return listed.order_by(service.c.created_at, service.c.id)


_marks = {dialect: _with_marks(mark) for dialect, mark in _MARKS.items()}
_marked = {dialect: _visible.with_only_columns(mark, *_visible.selected_columns) for dialect, mark in _MARKS.items()}

_SERVER = sa.select(sa.cast(sa.func.pg_postmaster_start_time(), sa.Text()))


def server_of(tx: sa.Connection) -> str:
    """Return what names the server that the store is on, since its start.

    Marks of two servers say nothing about each other: one that has taken over may have lost the newest transactions,
    and given their versions of rows to others.
    """
    return "" if tx.dialect.name == "sqlite" else str(tx.scalar(_SERVER))


def list_services(tx: sa.Connection, project_id: str, now: datetime, *, made_by: str | None = None) -> list[Service]:
    """Return the services of a project that clients may see, oldest first, without their reports.

    With `made_by` only those that this key made.
    """
    wanted = {"project_id": project_id, "shown_since": now - FAILED_SHOWN_FOR}
    return [service_of_row(row) for row in tx.execute(_made_by(_visible, made_by), wanted).all()]


def _made_by(query: sa.Select[Any], made_by: str | None) -> sa.Select[Any]:
    return query if made_by is None else query.where(service.c.made_by == made_by)


def list_marks(
    tx: sa.Connection,
    project_id: str,
    now: datetime,
    used_since: datetime,
    *,
    made_by: str | None = None,
    after: Position | None = None,
    limit: int | None = None,
) -> Sequence[tuple[Any, ...]]:
    """Return the id of each service that `list_services` returns, a mark of its state, and its `usage_columns`.

    With `after` only of those that follow this creation time and id, and with `limit` of so many. The mark is another
    one whenever what `list_services` returns of the service is something else.
    """
    wanted = {"project_id": project_id, "shown_since": now - FAILED_SHOWN_FOR, "used_since": used_since}
    query = _made_by(_marks[tx.dialect.name], made_by)
    if after is not None:
        created_at = sa.literal(after[0], service.c.created_at.type)
        query = query.where(sa.tuple_(service.c.created_at, service.c.id) > sa.tuple_(created_at, sa.literal(after[1])))
    return tx.execute(query if limit is None else query.limit(limit), wanted).all()


def list_marked(
    tx: sa.Connection, project_id: str, now: datetime, ids: Collection[str] | None = None, *, made_by: str | None = None
) -> list[tuple[str, Service]]:
    """Return services as `list_services` does, all or those with `ids`, each with the mark of the state that it has."""
    query = _made_by(_marked[tx.dialect.name], made_by)
    if ids is not None:
        query = query.where(service.c.id.in_(ids))
    rows = tx.execute(query, {"project_id": project_id, "shown_since": now - FAILED_SHOWN_FOR}).all()
    return [(row[0], service_of_row(row[1:])) for row in rows]
