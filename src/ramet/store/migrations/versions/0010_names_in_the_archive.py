"""Record the name that a service has in the off-host archive, where that is not its id."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("service", sa.Column("archived_as", sa.Text))
