"""Record which services were recovered: the archive has base backups of them from before that."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_MARK = """
UPDATE service SET recovered = true WHERE failed_at IS NULL AND id IN (
    SELECT subject FROM operation WHERE procedure = 'recover')
"""
_REMOVE_LATER = """
UPDATE service SET archive_from = created_at WHERE recovered AND deleted_at IS NOT NULL AND archive_from IS NULL
"""


def upgrade() -> None:
    op.add_column("service", sa.Column("recovered", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(_MARK)
    op.execute(_REMOVE_LATER)
