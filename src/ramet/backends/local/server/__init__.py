"""One server: its configuration, its life, its health, and the jobs that run beside it."""
