"""Durable work: named steps with leases, fences and undo. Knows nothing of databases or services."""
