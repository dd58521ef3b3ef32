"""Record which services were made in advance, and are nobody's yet."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("unclaimed", sa.Boolean, nullable=False, server_default=sa.false()))
