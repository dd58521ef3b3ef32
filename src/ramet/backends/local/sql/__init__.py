"""SQL in a server's databases: the platform's connections, roles, read-only access, neutralizing forks."""
