"""Record for each service which times between two base backups the off-host archive cannot restore: WAL was lost."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("archive_gaps", sa.JSON))
