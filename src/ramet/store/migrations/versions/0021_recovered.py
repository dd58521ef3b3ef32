"""Record which services were recovered: the archive has base backups of them from before that."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_MARK = """
UPDATE service SET recovered = true WHERE id IN (
    SELECT subject FROM operation WHERE procedure = 'recover' AND status = 'SUCCEEDED')
"""


def upgrade() -> None:
    op.add_column("service", sa.Column("recovered", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(_MARK)
