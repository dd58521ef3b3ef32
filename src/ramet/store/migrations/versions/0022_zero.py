"""Replace, in a store in PostgreSQL, the escape of a character that it has not: each query of a field there fails.

Only where fields are queried. The audit stays as it is: its entries are linked by what they have.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_COLUMNS = (("operation", "state"), ("service", "report"), ("service", "settings"))
_ZERO, _REPLACED = r"(?<!\\)((?:\\\\)*)\\u0000", r"\1\\ufffd"  # not behind a backslash that is itself escaped


def upgrade() -> None:
    tx = op.get_bind()
    if tx.dialect.name == "postgresql":
        for name, column in _COLUMNS:
            json = sa.column(column, sa.JSON)
            table, text = sa.table(name, json), sa.cast(json, sa.Text)
            kept = sa.cast(sa.func.regexp_replace(text, _ZERO, _REPLACED, "g"), sa.JSON)
            tx.execute(table.update().where(sa.func.strpos(text, r"\u0000") > 0).values({column: kept}))
