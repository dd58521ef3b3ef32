"""The tables.

Times are stored as microseconds since the epoch, so that they sort and compare alike everywhere. When operations and
duties are due is in seconds since the epoch by the store's own clock (`database.epoch_seconds`).
"""

import sqlalchemy as sa

from ramet.store.columns import columns

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, described: str, **defaults: object) -> sa.Table:
    return sa.Table(name, metadata, *columns(described, **defaults))


def is_live(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition for services, or read replica sets, that are neither deleted nor failed."""
    return table.c.deleted_at.is_(None) & table.c.failed_at.is_(None)


project = _table("project", "id! name created_at:time limits:json?")
api_key = _table(
    "api_key",
    """
    public_key! project_id:project.id name secret_digest created_at:time revoked_at:time?
    role expires_at:time? used_at:time? previous_digest? previous_until:time? limits:json? made_by?
    """,
)
api_key.c.role.server_default = sa.DefaultClause("ADMIN")
session = _table("session", "digest! public_key:api_key.public_key expires_at:time+ secret_digest?")
sign_in_link = _table("sign_in_link", "digest! public_key:api_key.public_key secret_digest expires_at:time+")
spent_form = _table("spent_form", "public_key:api_key.public_key! digest! expires_at:time+")

service = _table(
    "service",
    """
    id! project_id:project.id name region_code service_type environment cpu_millis:int? memory_gbs:int? volume_type
    host port:int pooler_port:int? pg_major:int created_at:time verifier paused:bool
    ready_at:time? failed_at:time? failure? deleted_at:time? down_reason?
    last_verified_at:time? drilled_at:time? drill_failure? archive_delay? storage_warning?
    archived_until:time? archive_base_at:time? archive_from:time? archive_gaps:json? archive_problem?
    archive_verified_at:time? archive_drilled_at:time? archive_drill_failure? archived_as?
    parent_project_id? parent_service_id? parent_name? fork_strategy? fork_target_time? origin_snapshot_id?
    data_time:time? upstream:json? following:json? protected:bool labels:json? life_span:json?
    sleep_after_seconds:int? server_port:int? asleep:bool made_by? unclaimed:bool half_promoted:bool recovered:bool
    settings:json report:json? operation_id?
    """,
)
for _name in ("protected", "asleep", "unclaimed", "half_promoted", "recovered"):
    service.c[_name].server_default = sa.DefaultClause(sa.false())
_live_service = is_live(service)
sa.Index("uq_service_port", service.c.port, unique=True, sqlite_where=_live_service, postgresql_where=_live_service)
sa.Index("ix_service_made_by", service.c.made_by, sqlite_where=_live_service, postgresql_where=_live_service)
_by_age = (service.c.project_id, service.c.created_at, service.c.id)
sa.Index("ix_service_listing", *_by_age)
_is_present = service.c.deleted_at.is_(None)
sa.Index("ix_service_present", *_by_age, sqlite_where=_is_present, postgresql_where=_is_present)
is_ready_fork_of_now = service.c.ready_at.is_not(None) & (service.c.fork_strategy == sa.literal_column("'NOW'"))
_by_parent = (service.c.parent_service_id, service.c.ready_at)
sa.Index("ix_service_parent", *_by_parent, sqlite_where=is_ready_fork_of_now, postgresql_where=is_ready_fork_of_now)
sa.Index("ix_service_child", service.c.parent_service_id)
# Deleted ones that had a base backup in the archive, before a recovery or since.
was_archived = service.c.deleted_at.is_not(None) & (service.c.archive_base_at.is_not(None) | service.c.recovered)
_names = (service.c.id, service.c.name)
sa.Index("ix_service_in_archive", *_names, sqlite_where=was_archived, postgresql_where=was_archived)

replica_set = _table(
    "replica_set",
    """
    id! project_id:project.id+ service_id:service.id+ name environment cpu_millis:int memory_gbs:int nodes:json
    host port:int pooler_port:int? created_at:time
    ready_at:time? failed_at:time? failure? deleted_at:time? down_reason? operation_id?
    """,
)
snapshot = _table(
    "snapshot",
    """
    id! service_id:service.id+ kind name? taken_at:time start_lsn end_lsn timeline:int next_xid:bigint size_bytes:bigint
    """,
)
login = _table(
    "login",
    "role! service_id:service.id+ public_key:api_key.public_key read_only:bool created_at:time expires_at:time",
)
hold = _table("hold", "service_id:service.id! operation_id:operation.id!+")
idempotency = _table(
    "idempotency", "project_id:project.id! key_digest! body_digest service_id:service.id+ created_at:time+"
)

# run_at: when it is due; while a worker leases it, the end of the lease. run_set_at: when run_at was written: the
# clock was never earlier. idle_seconds: how long it has waited without progress.
operation = _table(
    "operation",
    """
    id! procedure subject step status state:json done_steps:json attempt:int started:bool cancelled:bool
    run_at:float run_set_at:float fence:int worker? progress idle_seconds:float step_started_at:float error?
    created_at:time finished_at:time? actor:json?
    """,
    done_steps=list, attempt=0, started=False, cancelled=False, fence=0, progress="", idle_seconds=0.0,
)  # fmt: skip
_is_under_way = operation.c.status.in_(("RUNNING", "UNDOING"))
sa.Index("ix_operation_due", operation.c.run_at, sqlite_where=_is_under_way, postgresql_where=_is_under_way)
sa.Index("ix_operation_listing", operation.c.created_at, operation.c.id)
sa.Index("ix_operation_by_age", operation.c.subject, operation.c.procedure, operation.c.created_at)
sa.Index("ix_operation_by_status", operation.c.subject, operation.c.procedure, operation.c.status)
_is_over = operation.c.finished_at.is_not(None)
sa.Index("ix_operation_over", operation.c.finished_at, sqlite_where=_is_over, postgresql_where=_is_over)
operation_event = _table(
    "operation_event", "id:serial! operation_id:operation.id+ step outcome at:time seconds:float error?"
)

audit_entry = _table(
    "audit_entry",
    """
    sequence:bigint! at:time project_id? actor:json via address? verb subject? fields:json? outcome code?
    operation_id? request_id? link
    """,
)
sa.Index("ix_audit_entry_listing", audit_entry.c.project_id, audit_entry.c.sequence)

event = _table("event", "sequence:bigint! at:time+ project_id type service_id? data:json?")
sa.Index("ix_event_listing", event.c.project_id, event.c.sequence)
webhook = _table(
    "webhook",
    """
    id! project_id+ url description types:json enabled:bool disabled_reason? sealed_secret sealed_previous?
    previous_until:time? failing_since:time? created_at:time
    """,
)
delivery = _table(
    "delivery",
    """
    id! webhook_id:webhook.id event_sequence:bigint+ status attempts:int next_at:time? response_status:int? error?
    created_at:time finished_at:time?
    """,
)
_is_pending = delivery.c.status == "PENDING"
sa.Index("ix_delivery_due", delivery.c.next_at, sqlite_where=_is_pending, postgresql_where=_is_pending)
sa.Index("ix_delivery_listing", delivery.c.webhook_id, delivery.c.created_at)

metric_sample = _table("metric_sample", "subject! at:time! measured:json")  # of a service, or of a read replica set
last_usage = _table(
    "last_usage", "subject! at:time cpu_millis:int? memory_mb:int? storage_mb:int? own_bytes:bigint? own_at:time?"
)
duty = _table("duty", "name! next_at:float")

# One row, number 1: the installation that uses the store, by a digest of its root key.
installation = _table("installation", "number:int! digest")
