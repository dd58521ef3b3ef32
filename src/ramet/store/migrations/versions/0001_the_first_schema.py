"""The first schema."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from ramet.store.tables import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "text": sa.Text(),
    "int": sa.Integer(),
    "bigint": sa.BigInteger(),
    "serial": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "float": sa.Float(),
    "bool": sa.Boolean(),
    "time": UtcTime(),
    "json": sa.JSON(),
}
# Columns as name:type, which is text where it is left out; ? marks those that may be null.
_TABLES = {
    "duty": "name next_at:float",
    "operation": """
        id procedure subject step status state:json done_steps:json attempt:int started:bool cancelled:bool run_at:float
        fence:int worker? progress progress_at:float step_started_at:float error? created_at:time finished_at:time?
    """,
    "project": "id name created_at:time",
    "api_key": "public_key project_id name secret_digest created_at:time revoked_at:time?",
    "operation_event": "id:serial operation_id step outcome at:time seconds:float error?",
    "service": """
        id project_id name region_code service_type environment cpu_millis:int? memory_gbs:int? volume_type host
        port:int pooler_port:int? pg_major:int created_at:time verifier paused:bool born_at:time? failed_at:time?
        failure? deleted_at:time? down_reason? proven_at:time? drilled_at:time? drill_failure? archive_delay?
        storage_warning? parent_project_id? parent_service_id? parent_name? fork_strategy? fork_target_time?
        origin_snapshot_id? data_time:time? settings:json report:json? operation_id?
    """,
    "hold": "service_id operation_id",
    "idempotency": "project_id key_digest body_digest service_id created_at:time",
    "metric_sample": "subject at:time measured:json",
    "last_usage": "subject at:time cpu_millis:int? memory_mb:int? storage_mb:int?",
    "replica_set": """
        id project_id service_id name environment cpu_millis:int memory_gbs:int nodes:json host port:int
        pooler_port:int? created_at:time born_at:time? failed_at:time? failure? deleted_at:time? down_reason?
        operation_id?
    """,
    "snapshot": """
        id service_id kind name? taken_at:time start_lsn end_lsn timeline:int next_xid:bigint size_bytes:bigint
    """,
}
# The first column of any other table is its key.
_KEYS = {
    "hold": ["service_id", "operation_id"],
    "idempotency": ["project_id", "key_digest"],
    "metric_sample": ["subject", "at"],
}
_REFERENCES = {
    "api_key": ["project"],
    "operation_event": ["operation"],
    "service": ["project"],
    "hold": ["operation", "service"],
    "idempotency": ["project", "service"],
    "replica_set": ["project", "service"],
    "snapshot": ["service"],
}
_INDEXES = (
    ("ix_operation_due", "operation", ["run_at"], "status IN ('RUNNING', 'UNDOING')"),
    ("ix_operation_over", "operation", ["finished_at"], "finished_at IS NOT NULL"),
    ("ix_operation_subject", "operation", ["subject"], None),
    ("ix_operation_event_operation_id", "operation_event", ["operation_id"], None),
    ("ix_service_listing", "service", ["project_id", "created_at", "id"], None),
    ("uq_service_port", "service", ["port"], "deleted_at IS NULL AND failed_at IS NULL"),
    ("ix_hold_operation_id", "hold", ["operation_id"], None),
    ("ix_replica_set_project_id", "replica_set", ["project_id"], None),
    ("ix_replica_set_service_id", "replica_set", ["service_id"], None),
    ("ix_snapshot_service_id", "snapshot", ["service_id"], None),
)


def upgrade() -> None:
    for table, columns in _TABLES.items():
        described = [_column(one) for one in columns.split()]
        key = _KEYS.get(table, [described[0].name])
        references = [
            sa.ForeignKeyConstraint([f"{other}_id"], [f"{other}.id"], name=op.f(f"fk_{table}_{other}_id"))
            for other in _REFERENCES.get(table, ())
        ]
        op.create_table(table, *described, *references, sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{table}")))
    for name, table, names, condition in _INDEXES:
        where = None if condition is None else sa.text(condition)
        is_unique = name.startswith("uq_")
        op.create_index(op.f(name), table, names, unique=is_unique, sqlite_where=where, postgresql_where=where)


def _column(described: str) -> sa.Column[Any]:
    name, _, kind = described.rstrip("?").partition(":")
    return sa.Column(name, _TYPES[kind or "text"], nullable=described.endswith("?"))
