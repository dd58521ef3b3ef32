"""Record which services sleep when they are not used."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("sleep_after_seconds", sa.Integer))
    op.add_column("service", sa.Column("server_port", sa.Integer))
    op.add_column("service", sa.Column("asleep", sa.Boolean, nullable=False, server_default=sa.false()))
