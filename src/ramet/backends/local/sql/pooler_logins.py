"""What poolers ask PostgreSQL when a client logs in, and the names of their pools: for any PgBouncer."""

from ramet.backends.local.sql.connections import DATABASE, POOLER_ROLE

TRANSACTION_POOL = f"{DATABASE}_transaction"
READ_ONLY_OPTIONS = ("tsdb_admin.read_only_connection", "default_transaction_read_only")
# Runs in databases of tenants, who choose the search path: every name is qualified (CVE-2025-12819), and a password
# that has expired is not returned (CVE-2025-2291).
AUTH_QUERY = (
    "SELECT rolname, rolpassword FROM pg_catalog.pg_authid"  # noqa: S608 - a name of ours
    " WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin AND NOT rolsuper"
    f" AND rolname OPERATOR(pg_catalog.<>) '{POOLER_ROLE}' AND rolname OPERATOR(pg_catalog.<>) 'ramet_replica'"
    " AND rolpassword OPERATOR(pg_catalog.~~) 'SCRAM-SHA-256$%'"
    " AND (rolvaliduntil IS NULL OR rolvaliduntil OPERATOR(pg_catalog.>) pg_catalog.now())"
)
