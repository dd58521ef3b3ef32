"""Functions of tenants are not executed while a superuser restores their definitions or plans queries on their tables.

The planner executes an immutable function of constants, whoever wrote it, with the rights of whoever plans: that of an
index expression for each query on the table, that of a generated column, a partition key or a constraint when
pg_upgrade restores it. So the functions of all roles but superusers return NULL during that time; what was planned is
not stored, so nothing of that remains. They are immutable then, because SQL functions need not be where PostgreSQL puts
their bodies in place of the call, as it does with no body that returns NULL.

The body of a function is kept in its own row, behind a token that no tenant can know, and so passes through pg_upgrade.
A body of parsed SQL (BEGIN ATOMIC) is kept as a definition: its oids are others in the new cluster.
"""

from collections.abc import Iterator

from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import encoded

_FIRST_OF_USERS = 16384
_AS_BYTES = "encode(convert_to({}, getdatabaseencoding()), 'hex')"
_SILENCE = f"""
UPDATE pg_proc f
SET prolang = plpgsql.oid, prosqlbody = NULL, protrftypes = NULL, provolatile = 'i', prosrc = concat(
    CASE WHEN f.proretset OR f.prorettype = 'void'::regtype OR f.proargmodes && '{{o,b,t}}'::"char"[]
         THEN 'BEGIN RETURN; END' ELSE 'BEGIN RETURN NULL; END' END,
    ' /* ', %(token)s::text, ' ', f.provolatile, ' ', coalesce(f.protrftypes::text, '-'),
    ' ', {_AS_BYTES.format("own.lanname::text")},
    ' ', {_AS_BYTES.format("f.prosrc")},
    ' ', {_AS_BYTES.format("CASE WHEN f.prosqlbody IS NOT NULL THEN pg_get_functiondef(f.oid) END")}, ' */')
FROM pg_language plpgsql, pg_language own, pg_authid owner
WHERE plpgsql.lanname = 'plpgsql' AND own.oid = f.prolang AND own.lanname NOT IN ('internal', 'c')
AND owner.oid = f.proowner AND NOT owner.rolsuper AND f.oid >= {_FIRST_OF_USERS} AND f.prokind IN ('f', 'w')
AND strpos(f.prosrc, %(token)s) = 0
"""  # noqa: S608 - a constant
_SILENT = """
SELECT f.oid, kept[2]::"char" AS volatility, nullif(kept[3], '-')::oid[] AS transformed,
convert_from(decode(kept[4], 'hex'), getdatabaseencoding()) AS language,
convert_from(decode(kept[5], 'hex'), getdatabaseencoding()) AS body,
convert_from(decode(kept[6], 'hex'), getdatabaseencoding()) AS definition
FROM pg_proc f, string_to_array(substr(f.prosrc, strpos(f.prosrc, %(token)s)), ' ') AS kept
WHERE strpos(f.prosrc, %(token)s) > 0
"""
_DEFINITIONS = f"""
SELECT oid, oid::regprocedure::text, definition FROM ({_SILENT}) AS silent WHERE definition <> '' ORDER BY 1
"""  # noqa: S608
_PARSED = "CREATE TEMPORARY TABLE parsed_bodies (oid oid, body pg_node_tree) ON COMMIT DROP"
_KEEP_PARSED = "INSERT INTO pg_temp.parsed_bodies SELECT oid, prosqlbody FROM pg_proc WHERE oid = %s"
_OF = "SELECT prolang, prosrc, provolatile FROM pg_proc WHERE oid = %s"
_SILENCE_AGAIN = "UPDATE pg_proc SET (prolang, prosrc, provolatile, prosqlbody) = (%s, %s, %s, NULL) WHERE oid = %s"
_GIVE_BACK = f"""
WITH given AS (
    UPDATE pg_proc f SET prolang = language.oid, prosrc = silent.body, provolatile = silent.volatility,
    protrftypes = silent.transformed
    FROM ({_SILENT}) AS silent JOIN pg_language language ON language.lanname = silent.language WHERE f.oid = silent.oid
    RETURNING f.oid, language.oid AS language, silent.transformed
), transforms AS (
    INSERT INTO pg_depend SELECT 'pg_proc'::regclass, given.oid, 0, 'pg_transform'::regclass, t.oid, 0, 'n'
    FROM given JOIN pg_transform t ON t.trflang = given.language AND t.trftype = ANY(given.transformed)
)
UPDATE pg_depend d SET refobjid = given.language FROM given
WHERE d.classid = 'pg_proc'::regclass AND d.objid = given.oid AND d.refclassid = 'pg_language'::regclass
"""  # noqa: S608
_GIVE_BACK_PARSED = "UPDATE pg_proc f SET prosqlbody = kept.body FROM pg_temp.parsed_bodies kept WHERE kept.oid = f.oid"
_EXTENSIONS = """
CREATE TEMPORARY TABLE depending ON COMMIT DROP AS
SELECT * FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'x'
"""
_KEEP_EXTENSIONS = "INSERT INTO pg_depend (SELECT * FROM pg_temp.depending EXCEPT SELECT * FROM pg_depend)"
# SQL is there in each database: PostgreSQL records no dependency on it.
_WITHOUT_SQL = """
DELETE FROM pg_depend WHERE classid = 'pg_proc'::regclass AND refclassid = 'pg_language'::regclass
AND refobjid = (SELECT oid FROM pg_language WHERE lanname = 'sql')
"""


def silence(connection: Connection, token: str) -> None:
    """Let the functions of a database return NULL, and keep their bodies behind a token. May run twice."""
    connection.execute(_SILENCE.encode(), {"token": token})


def parse_definitions(connection: Connection, token: str) -> Iterator[str]:
    """Parse the definitions of silenced functions, which stay silent; the results last as long as the transaction.

    Yields the name of each function before its definition is parsed.
    """
    connection.execute(_PARSED.encode())
    connection.execute(_EXTENSIONS.encode())
    for oid, name, definition in connection.execute(_DEFINITIONS.encode(), {"token": token}).fetchall():
        yield f"function {name}"
        silent = connection.execute(_OF.encode(), (oid,)).fetchall()[0]
        connection.execute(encoded(definition))
        connection.execute(_KEEP_PARSED.encode(), (oid,))
        connection.execute(_SILENCE_AGAIN.encode(), (*silent, oid))


def give_back(connection: Connection, token: str) -> None:
    """Give silenced functions back what they had, in the transaction in which their definitions were parsed."""
    connection.execute(_GIVE_BACK.encode(), {"token": token})
    connection.execute(_WITHOUT_SQL.encode())
    connection.execute(_GIVE_BACK_PARSED.encode())
    connection.execute(_KEEP_EXTENSIONS.encode())
