"""Find the operations of a procedure on a subject by age and by status: a service has thousands of snapshots."""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column, name in (("created_at", "ix_operation_by_age"), ("status", "ix_operation_by_status")):
        op.create_index(name, "operation", ["subject", "procedure", column])
    op.drop_index("ix_operation_subject", "operation")
