"""Record for each service until when it is in the off-host archive, its newest base backup there, and what is wrong."""

import sqlalchemy as sa
from alembic import op

from ramet.store.tables import UtcTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("archived_until", UtcTime))
    op.add_column("service", sa.Column("archive_base_at", UtcTime))
    op.add_column("service", sa.Column("archive_problem", sa.Text))
