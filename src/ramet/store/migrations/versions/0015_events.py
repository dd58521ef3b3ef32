"""Record events, webhooks, and the deliveries of one to the other."""

import sqlalchemy as sa
from alembic import op

from ramet.store.columns import columns

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("event", *columns("sequence:bigint! at:time+ project_id type service_id? data:json?"))
    op.create_index("ix_event_listing", "event", ["project_id", "sequence"])
    op.create_table(
        "webhook",
        *columns(
            "id! project_id+ url description types:json enabled:bool disabled_reason? sealed_secret sealed_previous?"
            " previous_until:time? failing_since:time? created_at:time"
        ),
    )
    op.create_table(
        "delivery",
        *columns(
            "id! webhook_id:webhook.id event_sequence:bigint+ status attempts:int next_at:time? response_status:int?"
            " error? created_at:time finished_at:time?"
        ),
    )
    pending = sa.text("status = 'PENDING'")
    op.create_index("ix_delivery_due", "delivery", ["next_at"], sqlite_where=pending, postgresql_where=pending)
    op.create_index("ix_delivery_listing", "delivery", ["webhook_id", "created_at"])
