"""Keep what each service occupies of its own, and when that was measured."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("last_usage", sa.Column("own_bytes", sa.BigInteger))
    op.add_column("last_usage", sa.Column("own_at", sa.BigInteger))
