"""What servers need from this host: a system user, directories, control groups and certificates."""
