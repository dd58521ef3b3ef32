"""The first schema."""

import sqlalchemy as sa
from alembic import op

from ramet.store.columns import columns

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = {
    "duty": "name! next_at:float",
    "operation": """
        id! procedure subject+ step status state:json done_steps:json attempt:int started:bool cancelled:bool
        run_at:float fence:int worker? progress progress_at:float step_started_at:float error? created_at:time
        finished_at:time?
    """,
    "project": "id! name created_at:time",
    "api_key": "public_key! project_id:project.id name secret_digest created_at:time revoked_at:time?",
    "operation_event": "id:serial! operation_id:operation.id+ step outcome at:time seconds:float error?",
    "service": """
        id! project_id:project.id name region_code service_type environment cpu_millis:int? memory_gbs:int? volume_type
        host port:int pooler_port:int? pg_major:int created_at:time verifier paused:bool born_at:time? failed_at:time?
        failure? deleted_at:time? down_reason? proven_at:time? drilled_at:time? drill_failure? archive_delay?
        storage_warning? parent_project_id? parent_service_id? parent_name? fork_strategy? fork_target_time?
        origin_snapshot_id? data_time:time? settings:json report:json? operation_id?
    """,
    "hold": "service_id:service.id! operation_id:operation.id!+",
    "idempotency": "project_id:project.id! key_digest! body_digest service_id:service.id created_at:time",
    "metric_sample": "subject! at:time! measured:json",
    "last_usage": "subject! at:time cpu_millis:int? memory_mb:int? storage_mb:int?",
    "replica_set": """
        id! project_id:project.id+ service_id:service.id+ name environment cpu_millis:int memory_gbs:int nodes:json
        host port:int pooler_port:int? created_at:time born_at:time? failed_at:time? failure? deleted_at:time?
        down_reason? operation_id?
    """,
    "snapshot": """
        id! service_id:service.id+ kind name? taken_at:time start_lsn end_lsn timeline:int next_xid:bigint
        size_bytes:bigint
    """,
}
_INDEXES = (
    ("ix_operation_due", "operation", ["run_at"], "status IN ('RUNNING', 'UNDOING')"),
    ("ix_operation_over", "operation", ["finished_at"], "finished_at IS NOT NULL"),
    ("ix_service_listing", "service", ["project_id", "created_at", "id"], None),
    ("uq_service_port", "service", ["port"], "deleted_at IS NULL AND failed_at IS NULL"),
)


def upgrade() -> None:
    for table, described in _TABLES.items():
        op.create_table(table, *columns(described))
    for name, table, names, condition in _INDEXES:
        where = None if condition is None else sa.text(condition)
        is_unique = name.startswith("uq_")
        op.create_index(op.f(name), table, names, unique=is_unique, sqlite_where=where, postgresql_where=where)
