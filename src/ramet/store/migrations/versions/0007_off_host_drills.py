"""Record for each service what restore drills from the off-host archive have found."""

from alembic import op

from ramet.store.columns import columns

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in columns("archive_verified_at:time? archive_drilled_at:time? archive_drill_failure?"):
        op.add_column("service", column)
