"""Base backups, snapshots, and recovery of forks to a recovery target."""
