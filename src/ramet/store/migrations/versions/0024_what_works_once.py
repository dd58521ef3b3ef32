"""Keep the links that sign in once, and the forms that have written: several processes serve the console."""

from alembic import op

from ramet.store.columns import columns

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    of_key = "public_key:api_key.public_key"
    op.create_table("sign_in_link", *columns(f"digest! {of_key} secret_digest expires_at:time+"))
    op.create_table("spent_form", *columns(f"{of_key}! digest! expires_at:time+"))
