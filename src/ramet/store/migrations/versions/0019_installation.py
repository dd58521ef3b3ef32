"""Name the installation that uses the store."""

from alembic import op

from ramet.store.columns import columns

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("installation", *columns("number:int! digest"))
