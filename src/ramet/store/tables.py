"""The tables.

Times are stored as microseconds since the epoch, so that they sort and compare alike everywhere. When operations and
duties are due is in seconds since the epoch by the store's own clock (`database.epoch_seconds`).
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcTime(sa.TypeDecorator[datetime]):
    """An aware datetime, exact to the microsecond."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        """Store microseconds since the epoch."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[int | None], datetime | None]:
        """Return what makes an aware datetime in UTC: at once, without the calls that process_result_value has."""
        return _utc_time


def _utc_time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)


project = sa.Table(
    "project",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("limits", sa.JSON(none_as_null=True)),
)

api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("public_key", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, sa.ForeignKey("project.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("secret_digest", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("revoked_at", UtcTime),
)

session = sa.Table(
    "session",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("public_key", sa.Text, sa.ForeignKey("api_key.public_key"), nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False, index=True),
)

service = sa.Table(
    "service",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, sa.ForeignKey("project.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("region_code", sa.Text, nullable=False),
    sa.Column("service_type", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("cpu_millis", sa.Integer),
    sa.Column("memory_gbs", sa.Integer),
    sa.Column("volume_type", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("pooler_port", sa.Integer),
    sa.Column("pg_major", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("verifier", sa.Text, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("ready_at", UtcTime),
    sa.Column("failed_at", UtcTime),
    sa.Column("failure", sa.Text),
    sa.Column("deleted_at", UtcTime),
    sa.Column("down_reason", sa.Text),
    sa.Column("last_verified_at", UtcTime),
    sa.Column("drilled_at", UtcTime),
    sa.Column("drill_failure", sa.Text),
    sa.Column("archive_delay", sa.Text),
    sa.Column("storage_warning", sa.Text),
    sa.Column("archived_until", UtcTime),
    sa.Column("archive_base_at", UtcTime),
    sa.Column("archive_from", UtcTime),
    sa.Column("archive_gaps", sa.JSON(none_as_null=True)),
    sa.Column("archive_problem", sa.Text),
    sa.Column("archive_verified_at", UtcTime),
    sa.Column("archive_drilled_at", UtcTime),
    sa.Column("archive_drill_failure", sa.Text),
    sa.Column("archived_as", sa.Text),
    sa.Column("parent_project_id", sa.Text),
    sa.Column("parent_service_id", sa.Text),
    sa.Column("parent_name", sa.Text),
    sa.Column("fork_strategy", sa.Text),
    sa.Column("fork_target_time", sa.Text),
    sa.Column("origin_snapshot_id", sa.Text),
    sa.Column("data_time", UtcTime),
    sa.Column("upstream", sa.JSON(none_as_null=True)),
    sa.Column("following", sa.JSON(none_as_null=True)),
    sa.Column("protected", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("labels", sa.JSON(none_as_null=True)),
    sa.Column("life_span", sa.JSON(none_as_null=True)),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("report", sa.JSON(none_as_null=True)),
    sa.Column("operation_id", sa.Text),
)
_holds_a_port = service.c.deleted_at.is_(None) & service.c.failed_at.is_(None)
sa.Index("uq_service_port", service.c.port, unique=True, sqlite_where=_holds_a_port, postgresql_where=_holds_a_port)
sa.Index("ix_service_listing", service.c.project_id, service.c.created_at, service.c.id)

replica_set = sa.Table(
    "replica_set",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("project_id", sa.Text, sa.ForeignKey("project.id"), nullable=False, index=True),
    sa.Column("service_id", sa.Text, sa.ForeignKey("service.id"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("cpu_millis", sa.Integer, nullable=False),
    sa.Column("memory_gbs", sa.Integer, nullable=False),
    sa.Column("nodes", sa.JSON, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("pooler_port", sa.Integer),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("ready_at", UtcTime),
    sa.Column("failed_at", UtcTime),
    sa.Column("failure", sa.Text),
    sa.Column("deleted_at", UtcTime),
    sa.Column("down_reason", sa.Text),
    sa.Column("operation_id", sa.Text),
)

snapshot = sa.Table(
    "snapshot",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("service_id", sa.Text, sa.ForeignKey("service.id"), nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("taken_at", UtcTime, nullable=False),
    sa.Column("start_lsn", sa.Text, nullable=False),
    sa.Column("end_lsn", sa.Text, nullable=False),
    sa.Column("timeline", sa.Integer, nullable=False),
    sa.Column("next_xid", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
)

hold = sa.Table(
    "hold",
    metadata,
    sa.Column("service_id", sa.Text, sa.ForeignKey("service.id"), primary_key=True),
    sa.Column("operation_id", sa.Text, sa.ForeignKey("operation.id"), primary_key=True, index=True),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("project_id", sa.Text, sa.ForeignKey("project.id"), primary_key=True),
    sa.Column("key_digest", sa.Text, primary_key=True),
    sa.Column("body_digest", sa.Text, nullable=False),
    sa.Column("service_id", sa.Text, sa.ForeignKey("service.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False, index=True),
)

operation = sa.Table(
    "operation",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("procedure", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("state", sa.JSON, nullable=False),
    sa.Column("done_steps", sa.JSON, nullable=False, default=list),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    sa.Column("started", sa.Boolean, nullable=False, default=False),
    sa.Column("cancelled", sa.Boolean, nullable=False, default=False),
    sa.Column("run_at", sa.Float, nullable=False),  # when it is due; while a worker leases it, the end of the lease
    sa.Column("run_set_at", sa.Float, nullable=False),  # when run_at was written: the clock was never earlier
    sa.Column("fence", sa.Integer, nullable=False, default=0),
    sa.Column("worker", sa.Text),
    sa.Column("progress", sa.Text, nullable=False, default=""),
    sa.Column("idle_seconds", sa.Float, nullable=False, default=0.0),  # how long it has waited without progress
    sa.Column("step_started_at", sa.Float, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("finished_at", UtcTime),
)
_is_under_way = operation.c.status.in_(("RUNNING", "UNDOING"))
sa.Index("ix_operation_due", operation.c.run_at, sqlite_where=_is_under_way, postgresql_where=_is_under_way)
_is_over = operation.c.finished_at.is_not(None)
sa.Index("ix_operation_over", operation.c.finished_at, sqlite_where=_is_over, postgresql_where=_is_over)

metric_sample = sa.Table(
    "metric_sample",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),  # a service, or a read replica set
    sa.Column("at", UtcTime, primary_key=True),
    sa.Column("measured", sa.JSON, nullable=False),
)

last_usage = sa.Table(
    "last_usage",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("cpu_millis", sa.Integer),
    sa.Column("memory_mb", sa.Integer),
    sa.Column("storage_mb", sa.Integer),
)

operation_event = sa.Table(
    "operation_event",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("operation_id", sa.Text, sa.ForeignKey("operation.id"), nullable=False, index=True),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("error", sa.Text),
)

duty = sa.Table(
    "duty",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("next_at", sa.Float, nullable=False),
)
