"""Copying databases from elsewhere into servers of this host, by PostgreSQL's own tools."""
