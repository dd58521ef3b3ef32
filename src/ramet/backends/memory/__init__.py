"""The backend in memory, for tests and for trying the control plane out."""
