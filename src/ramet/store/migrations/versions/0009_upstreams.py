"""Record for each service which database elsewhere it follows, and how far behind it is."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("upstream", sa.JSON(none_as_null=True)))
    op.add_column("service", sa.Column("following", sa.JSON(none_as_null=True)))
