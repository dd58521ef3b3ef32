"""Record which services are half promoted: until now the reason why one is down said so."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_MARK = """
UPDATE service SET half_promoted = true WHERE down_reason LIKE 'Its promotion is not complete%' OR operation_id IN (
    SELECT id FROM operation WHERE procedure = 'promote' AND step IN ('promote', 'secure', 'publish'))
"""


def upgrade() -> None:
    op.add_column("service", sa.Column("half_promoted", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(_MARK)
