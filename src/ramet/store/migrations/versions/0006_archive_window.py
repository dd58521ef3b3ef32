"""Record for each service from when on the off-host archive has it: the time of its oldest base backup there.

Of services that are archived already the newest one is known; the next cleaning finds the oldest.
"""

from alembic import op

from ramet.store.columns import columns

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", *columns("archive_from:time?"))
    op.execute("UPDATE service SET archive_from = archive_base_at")
