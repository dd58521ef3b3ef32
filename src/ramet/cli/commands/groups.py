"""`ramet service` and `ramet db`: groups with the commands of several modules."""

from ramet.cli.commands import (
    archive,
    databases,
    extensions,
    fork_reports,
    forks,
    logs,
    metrics,
    poolers,
    replica_sets,
    restore,
    roles,
    schema,
    service_changes,
    services,
)

service_group = services.service_group
database_group = databases.database_group

for command in (
    forks.create_service,
    forks.fork_service,
    service_changes.rename,
    service_changes.resize,
    service_changes.set_environment,
    service_changes.update_password,
    service_changes.optimize,
    logs.show_logs,
    metrics.show_metrics,
    poolers.pooler_group,
    replica_sets.replica_group,
    restore.show_window,
    archive.show_archive,
    fork_reports.show_report,
    restore.list_snapshots,
    restore.take_snapshot,
):
    service_group.add_command(command)
for group_or_command in (schema.show_schema, extensions.upgrade_extension, roles.create_group):
    database_group.add_command(group_or_command)
