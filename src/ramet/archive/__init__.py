"""The off-host archive: base backups and WAL of services in an object store, in the layout of Barman's cloud tools."""
