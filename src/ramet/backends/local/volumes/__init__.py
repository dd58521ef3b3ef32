"""The storage of services: one pool for each data root, and three drivers that copy data directories in it."""
