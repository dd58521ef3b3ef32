"""One server: its configuration, starting and stopping it, its health, and background jobs."""
