"""Operations outlive a clock that steps: when each was made due, and how long it has waited without progress."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # When run_at of existing rows was written is unknown: not later than now.
    for name in ("run_set_at", "idle_seconds"):
        op.add_column("operation", sa.Column(name, sa.Float(), nullable=False, server_default="0"))
    op.drop_column("operation", "progress_at")
