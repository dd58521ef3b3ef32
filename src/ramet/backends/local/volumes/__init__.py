"""Where services keep their files: one pool a data root, and three ways to copy a data directory inside it."""
