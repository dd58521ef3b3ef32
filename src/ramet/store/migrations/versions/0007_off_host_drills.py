"""Record for each service what restore drills from the off-host archive have found."""

import sqlalchemy as sa
from alembic import op

from ramet.store.tables import UtcTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("archive_verified_at", UtcTime))
    op.add_column("service", sa.Column("archive_drilled_at", UtcTime))
    op.add_column("service", sa.Column("archive_drill_failure", sa.Text))
