"""Record labels, protection and life span of each service, and the limits of each project."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("protected", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("service", sa.Column("labels", sa.JSON(none_as_null=True)))
    op.add_column("service", sa.Column("life_span", sa.JSON(none_as_null=True)))
    op.add_column("project", sa.Column("limits", sa.JSON(none_as_null=True)))
