"""Standbys of databases elsewhere: examining a source, the base copy, how far behind they are, and promotion."""
