"""Record role, limits, expiry and last use of each key, the secret before its rotation, and who made a service."""

import sqlalchemy as sa
from alembic import op

from ramet.store.columns import UtcTime

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_LIVE = sa.text("deleted_at IS NULL AND failed_at IS NULL")


def upgrade() -> None:
    op.add_column("api_key", sa.Column("role", sa.Text, nullable=False, server_default="ADMIN"))
    for name in ("expires_at", "used_at", "previous_until"):
        op.add_column("api_key", sa.Column(name, UtcTime))
    for name in ("previous_digest", "made_by"):
        op.add_column("api_key", sa.Column(name, sa.Text))
    op.add_column("api_key", sa.Column("limits", sa.JSON(none_as_null=True)))
    op.add_column("service", sa.Column("made_by", sa.Text))
    op.create_index("ix_service_made_by", "service", ["made_by"], sqlite_where=_LIVE, postgresql_where=_LIVE)
