"""Record who asked for an operation, and an entry for each change in the audit."""

import sqlalchemy as sa
from alembic import op

from ramet.store.columns import columns

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operation", sa.Column("actor", sa.JSON))
    op.create_table(
        "audit_entry",
        *columns(
            "sequence:bigint! at:time project_id? actor:json via address? verb subject? fields:json? outcome code?"
            " operation_id? request_id? link"
        ),
    )
    op.create_index("ix_audit_entry_listing", "audit_entry", ["project_id", "sequence"])
