"""PostgreSQL servers as clusters of CloudNativePG in a Kubernetes namespace."""
