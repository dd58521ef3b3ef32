"""Record which services are half promoted, as the reason why one is down said; forget secrets of ended operations."""

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
_SECRETS = ("sealed", "secret_key", "password")
_operation = sa.table(
    "operation", *(sa.column(name) for name in ("id", "procedure", "status")), sa.column("state", sa.JSON)
)


def upgrade() -> None:
    op.add_column("service", sa.Column("half_promoted", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute(_MARK)
    _forget_secrets(op.get_bind())


def _forget_secrets(tx: sa.Connection) -> None:
    has_secrets = _operation.c.procedure.in_(("import", "follow", "follow_logical", "move"))
    is_over = _operation.c.status.in_(("SUCCEEDED", "FAILED"))
    query = sa.select(_operation.c.id, _operation.c.state).where(has_secrets, is_over)
    for operation_id, state in tx.execute(query).all():
        kept = {name: None if name in _SECRETS else value for name, value in state.items()}
        tx.execute(_operation.update().where(_operation.c.id == operation_id).values(state=kept))
