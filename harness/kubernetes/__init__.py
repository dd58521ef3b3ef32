"""A whole one-node Kubernetes with CloudNativePG on this machine, for tests; script/kubernetes runs it."""
