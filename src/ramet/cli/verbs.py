"""`ramet service` and `ramet db`, put together: each module adds its commands to the group."""

from ramet.cli import (
    births,
    changes,
    databases,
    extensions,
    logs,
    metrics,
    pooler,
    replica,
    restore,
    roles,
    schema,
    services,
)

service_group = services.service_group
database_group = databases.database_group

for command in (
    births.create_service,
    births.fork_service,
    changes.rename,
    changes.resize,
    changes.set_environment,
    changes.update_password,
    changes.optimize,
    logs.show_logs,
    metrics.show_metrics,
    pooler.pooler_group,
    replica.replica_group,
    restore.show_window,
    restore.show_report,
    restore.list_snapshots,
    restore.take_snapshot,
):
    service_group.add_command(command)
for group_or_command in (schema.show_schema, extensions.upgrade_extension, roles.create_group):
    database_group.add_command(group_or_command)
