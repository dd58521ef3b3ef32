"""Places where PostgreSQL servers live, behind one protocol."""
