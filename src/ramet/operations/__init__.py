"""Durable work: named steps with leases, fences and undo. What the steps do is in `ramet.procedures`."""
