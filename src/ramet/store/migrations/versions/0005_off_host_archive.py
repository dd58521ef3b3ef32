"""Record for each service until when it is in the off-host archive, its newest base backup there, and what is wrong."""

from alembic import op

from ramet.store.columns import columns

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in columns("archived_until:time? archive_base_at:time? archive_problem?"):
        op.add_column("service", column)
