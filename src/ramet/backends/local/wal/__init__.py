"""WAL as files: where the segments are, what they contain, and whether they are intact."""
