"""What is done inside a server's databases: connections of the platform, roles, read-only access, neutralizing."""
