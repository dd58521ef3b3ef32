"""Live updates: the feed of changes, and the stream of server-sent events that open pages listen to."""
