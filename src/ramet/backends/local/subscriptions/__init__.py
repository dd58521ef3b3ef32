"""Subscriptions of the servers of this host to databases elsewhere."""
