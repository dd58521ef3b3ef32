"""The verbs of the control plane: each one transaction that decides and records; the work follows as an operation."""
