"""PostgreSQL services as processes on this host."""
