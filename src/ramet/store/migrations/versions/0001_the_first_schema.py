"""The first schema."""

import sqlalchemy as sa
from alembic import op

from ramet.store.tables import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "duty",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_duty")),
    )
    op.create_table(
        "operation",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("procedure", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("done_steps", sa.JSON(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started", sa.Boolean(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("run_at", sa.Float(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("progress_at", sa.Float(), nullable=False),
        sa.Column("step_started_at", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation")),
    )
    with op.batch_alter_table("operation", schema=None) as batch_op:
        batch_op.create_index(
            "ix_operation_due",
            ["run_at"],
            unique=False,
            sqlite_where=sa.text("status IN ('RUNNING', 'UNDOING')"),
            postgresql_where=sa.text("status IN ('RUNNING', 'UNDOING')"),
        )
        batch_op.create_index(
            "ix_operation_over",
            ["finished_at"],
            unique=False,
            sqlite_where=sa.text("finished_at IS NOT NULL"),
            postgresql_where=sa.text("finished_at IS NOT NULL"),
        )
        batch_op.create_index(batch_op.f("ix_operation_subject"), ["subject"], unique=False)

    op.create_table(
        "project",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
    )
    op.create_table(
        "api_key",
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_digest", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_api_key_project_id")),
        sa.PrimaryKeyConstraint("public_key", name=op.f("pk_api_key")),
    )
    op.create_table(
        "operation_event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("operation_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["operation_id"], ["operation.id"], name=op.f("fk_operation_event_operation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation_event")),
    )
    with op.batch_alter_table("operation_event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_operation_event_operation_id"), ["operation_id"], unique=False)

    op.create_table(
        "service",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("region_code", sa.Text(), nullable=False),
        sa.Column("service_type", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("cpu_millis", sa.Integer(), nullable=True),
        sa.Column("memory_gbs", sa.Integer(), nullable=True),
        sa.Column("volume_type", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("pooler_port", sa.Integer(), nullable=True),
        sa.Column("pg_major", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("born_at", UtcTime(), nullable=True),
        sa.Column("failed_at", UtcTime(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("deleted_at", UtcTime(), nullable=True),
        sa.Column("down_reason", sa.Text(), nullable=True),
        sa.Column("proven_at", UtcTime(), nullable=True),
        sa.Column("drilled_at", UtcTime(), nullable=True),
        sa.Column("drill_failure", sa.Text(), nullable=True),
        sa.Column("archive_delay", sa.Text(), nullable=True),
        sa.Column("storage_warning", sa.Text(), nullable=True),
        sa.Column("parent_project_id", sa.Text(), nullable=True),
        sa.Column("parent_service_id", sa.Text(), nullable=True),
        sa.Column("parent_name", sa.Text(), nullable=True),
        sa.Column("fork_strategy", sa.Text(), nullable=True),
        sa.Column("fork_target_time", sa.Text(), nullable=True),
        sa.Column("origin_snapshot_id", sa.Text(), nullable=True),
        sa.Column("data_time", UtcTime(), nullable=True),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("operation_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_service_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service")),
    )
    with op.batch_alter_table("service", schema=None) as batch_op:
        batch_op.create_index("ix_service_listing", ["project_id", "created_at", "id"], unique=False)
        batch_op.create_index(
            "uq_service_port",
            ["port"],
            unique=True,
            sqlite_where=sa.text("deleted_at IS NULL AND failed_at IS NULL"),
            postgresql_where=sa.text("deleted_at IS NULL AND failed_at IS NULL"),
        )

    op.create_table(
        "hold",
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("operation_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["operation_id"], ["operation.id"], name=op.f("fk_hold_operation_id")),
        sa.ForeignKeyConstraint(["service_id"], ["service.id"], name=op.f("fk_hold_service_id")),
        sa.PrimaryKeyConstraint("service_id", "operation_id", name=op.f("pk_hold")),
    )
    with op.batch_alter_table("hold", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_hold_operation_id"), ["operation_id"], unique=False)

    op.create_table(
        "idempotency",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_idempotency_project_id")),
        sa.ForeignKeyConstraint(["service_id"], ["service.id"], name=op.f("fk_idempotency_service_id")),
        sa.PrimaryKeyConstraint("project_id", "key_digest", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "metric_sample",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("measured", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "at", name=op.f("pk_metric_sample")),
    )
    op.create_table(
        "last_usage",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("cpu_millis", sa.Integer(), nullable=True),
        sa.Column("memory_mb", sa.Integer(), nullable=True),
        sa.Column("storage_mb", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_last_usage")),
    )
    op.create_table(
        "replica_set",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("cpu_millis", sa.Integer(), nullable=False),
        sa.Column("memory_gbs", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("pooler_port", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("born_at", UtcTime(), nullable=True),
        sa.Column("failed_at", UtcTime(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("deleted_at", UtcTime(), nullable=True),
        sa.Column("down_reason", sa.Text(), nullable=True),
        sa.Column("operation_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_replica_set_project_id")),
        sa.ForeignKeyConstraint(["service_id"], ["service.id"], name=op.f("fk_replica_set_service_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replica_set")),
    )
    with op.batch_alter_table("replica_set", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_replica_set_project_id"), ["project_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_replica_set_service_id"), ["service_id"], unique=False)

    op.create_table(
        "snapshot",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("taken_at", UtcTime(), nullable=False),
        sa.Column("start_lsn", sa.Text(), nullable=False),
        sa.Column("end_lsn", sa.Text(), nullable=False),
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.Column("next_xid", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["service_id"], ["service.id"], name=op.f("fk_snapshot_service_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
    )
    with op.batch_alter_table("snapshot", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_snapshot_service_id"), ["service_id"], unique=False)
