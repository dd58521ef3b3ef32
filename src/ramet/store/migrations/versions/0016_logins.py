"""Record the logins that keys have in the databases of services."""

from alembic import op

from ramet.store.columns import columns

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "login",
        *columns(
            "role! service_id:service.id+ public_key:api_key.public_key read_only:bool created_at:time expires_at:time"
        ),
    )
