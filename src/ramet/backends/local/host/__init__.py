"""What this host gives to servers: a system user, directories, control groups, certificates, PostgreSQL itself."""
