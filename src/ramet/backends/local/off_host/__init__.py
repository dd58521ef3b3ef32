"""The off-host archive of services of this host: shipping their WAL, and base backups from their snapshots."""
