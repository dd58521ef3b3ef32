"""Add indexes for what is not deleted, the forks of a service, what the archive has, and lists of operations."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    service = sa.table("service", *map(sa.column, ("deleted_at", "ready_at", "fork_strategy", "archive_base_at")))
    had = service.c.archive_base_at.is_not(None) | sa.column("recovered", sa.Boolean)
    of_now = service.c.ready_at.is_not(None) & (service.c.fork_strategy == sa.literal_column("'NOW'"))
    for name, columns, where in (
        ("ix_service_present", ["project_id", "created_at", "id"], service.c.deleted_at.is_(None)),
        ("ix_service_parent", ["parent_service_id", "ready_at"], of_now),
        ("ix_service_in_archive", ["id", "name"], service.c.deleted_at.is_not(None) & had),
    ):
        op.create_index(name, "service", columns, sqlite_where=where, postgresql_where=where)
    op.create_index("ix_operation_listing", "operation", ["created_at", "id"])
