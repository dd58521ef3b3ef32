"""The user's own files: credentials, passwords of services, preferences."""
