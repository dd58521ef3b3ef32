"""PostgreSQL servers as clusters of CloudNativePG, in one namespace of Kubernetes or one for each project."""
