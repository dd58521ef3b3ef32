"""Find the operations of a procedure on a subject by age and by status, and what still needs a service that has ended.

A service has thousands of snapshots, and the history thousands of services.
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column, name in (("created_at", "ix_operation_by_age"), ("status", "ix_operation_by_status")):
        op.create_index(name, "operation", ["subject", "procedure", column])
    op.drop_index("ix_operation_subject", "operation")
    op.create_index("ix_idempotency_service_id", "idempotency", ["service_id"])
    op.create_index("ix_service_child", "service", ["parent_service_id"])
