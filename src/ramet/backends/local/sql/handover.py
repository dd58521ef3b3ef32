"""Make the admin the owner of what another role owns, each object in a transaction of its own.

REASSIGN OWNED is a single transaction, which locks all tables, their indexes and their sequences at once: those of many
tables do not fit into the lock table of a server.
"""

import psycopg

from ramet.backends.local.sql import raw_names
from ramet.backends.local.sql.connections import ADMIN_ROLE, Connection
from ramet.backends.local.sql.former_superusers import BEGIN_SESSION, CALLED

# Objects of a role, except those of extensions, those that belong to another object, and functions of casts and
# operators that queries of the platform use.
_OWNED = f"""
WITH owned AS (
    SELECT 'pg_class'::regclass AS catalog, oid FROM pg_class
        WHERE relowner = %(owner)s::oid AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
    UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE proowner = %(owner)s::oid
        AND oid NOT IN {CALLED} AND oid IS DISTINCT FROM {BEGIN_SESSION}
    UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typowner = %(owner)s::oid AND (typtype IN ('e','d','r')
        OR typtype = 'c' AND EXISTS (SELECT FROM pg_class WHERE pg_class.oid = typrelid AND relkind = 'c'))
    UNION ALL SELECT 'pg_namespace'::regclass, oid FROM pg_namespace WHERE nspowner = %(owner)s::oid
    UNION ALL SELECT 'pg_collation'::regclass, oid FROM pg_collation WHERE collowner = %(owner)s::oid
    UNION ALL SELECT 'pg_conversion'::regclass, oid FROM pg_conversion WHERE conowner = %(owner)s::oid
    UNION ALL SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oprowner = %(owner)s::oid
    UNION ALL SELECT 'pg_opclass'::regclass, oid FROM pg_opclass WHERE opcowner = %(owner)s::oid
    UNION ALL SELECT 'pg_opfamily'::regclass, oid FROM pg_opfamily WHERE opfowner = %(owner)s::oid
    UNION ALL SELECT 'pg_ts_dict'::regclass, oid FROM pg_ts_dict WHERE dictowner = %(owner)s::oid
    UNION ALL SELECT 'pg_ts_config'::regclass, oid FROM pg_ts_config WHERE cfgowner = %(owner)s::oid
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext WHERE stxowner = %(owner)s::oid
    UNION ALL SELECT 'pg_publication'::regclass, oid FROM pg_publication WHERE pubowner = %(owner)s::oid
    UNION ALL SELECT 'pg_foreign_server'::regclass, oid FROM pg_foreign_server WHERE srvowner = %(owner)s::oid
    UNION ALL SELECT 'pg_largeobject'::regclass, oid FROM pg_largeobject_metadata WHERE lomowner = %(owner)s::oid
)
SELECT i.type, i.identity FROM owned o, pg_identify_object(o.catalog, o.oid, 0) i
WHERE o.oid >= 16384 AND i.type <> 'toast table' AND i.schema IS DISTINCT FROM 'pg_toast' AND NOT EXISTS (
    SELECT FROM pg_depend d WHERE d.classid = o.catalog AND d.objid = o.oid AND d.deptype IN ('e', 'a', 'i')
    AND (d.deptype <> 'a' OR d.refobjsubid <> 0 OR d.refclassid = 'pg_extension'::regclass))
"""  # noqa: S608 - all of it is ours
_WORDS = {"statistics object": "statistics"}


def give_away(connection: Connection, owner: int) -> list[str]:
    """Make the admin the owner of what the role with an oid owns in a database; return what could not be given to it.

    Raises LockNotAvailable, as for what a prepared transaction locks.
    """
    problems = []
    for kind, identity in connection.execute(_OWNED, {"owner": owner}).fetchall():
        try:
            connection.execute(raw_names.encoded(f'ALTER {_WORDS.get(kind, kind)} {identity} OWNER TO "{ADMIN_ROLE}"'))
        except psycopg.errors.LockNotAvailable:
            raise
        except psycopg.Error as error:
            problems.append(f"{kind} {raw_names.shown(identity)}: {error.diag.message_primary or error}")
    return problems
