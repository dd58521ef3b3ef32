"""Record with which secret of its key a session began: a rotation ends those of the secret before."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("session", sa.Column("secret_digest", sa.Text))
