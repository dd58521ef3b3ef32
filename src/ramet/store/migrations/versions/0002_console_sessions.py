"""Sessions of the console that end on the server, and keys of repeated requests that are forgotten by their age."""

import sqlalchemy as sa
from alembic import op

from ramet.store.tables import UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["public_key"], ["api_key.public_key"], name=op.f("fk_session_public_key")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_session")),
    )
    op.create_index(op.f("ix_session_expires_at"), "session", ["expires_at"])
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"])
