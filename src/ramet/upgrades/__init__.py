"""Upgrades to another major version of PostgreSQL: tried on a fork first. Over the verbs of the control plane."""
