"""The console: pages in a browser over the same verbs as the HTTP interface, and the same keys."""
