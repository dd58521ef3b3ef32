"""Sessions of the console that end on the server, and keys of repeated requests that are forgotten by their age."""

from alembic import op

from ramet.store.columns import columns

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("session", *columns("digest! public_key:api_key.public_key expires_at:time+"))
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"])
