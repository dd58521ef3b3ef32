"""Name two times by the terms of the field: when a service was READY first, when its restore was verified last."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Both databases rename a column in place; Alembic would copy the whole table on SQLite.
    op.execute("ALTER TABLE service RENAME COLUMN born_at TO ready_at")
    op.execute("ALTER TABLE service RENAME COLUMN proven_at TO last_verified_at")
    op.execute("ALTER TABLE replica_set RENAME COLUMN born_at TO ready_at")
