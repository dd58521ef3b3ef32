"""Upgrades of data to another major version, with pg_upgrade."""
