"""Functions of tenants are not executed while a superuser restores their definitions or plans queries on their tables.

The planner executes an immutable function of constants, whoever wrote it, with the rights of whoever plans: that of an
index expression for each query on the table, that of a generated column, a partition key or a constraint when
pg_upgrade restores it. A constant of a composite type is checked against the domains in it when it is read. So the
functions of all roles but superusers return NULL meanwhile; what was planned is not stored, so nothing of that remains.
An upgrade is refused where the check of a domain uses another function that does more than compute.

The body of a function is kept in its own row, behind a token that no tenant can know, and so passes through pg_upgrade.
A body of parsed SQL (BEGIN ATOMIC) is kept as a definition: its oids are others in the new cluster.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ramet.backends.local.sql.connections import Connection
from ramet.errors import Failed
from ramet.ids import new_id
from ramet.model.upgrade import Refusal

_FIRST_OF_USERS = 16384
_SILENCE = f"""
UPDATE pg_proc f SET prolang = plpgsql.oid, prosqlbody = NULL, prosrc = concat(
    CASE WHEN f.proretset OR f.prorettype = 'void'::regtype OR f.proargmodes && '{{o,b,t}}'::"char"[]
         THEN 'BEGIN RETURN; END' ELSE 'BEGIN RETURN NULL; END' END,
    ' /* ', %(token)s::text,
    ' ', encode(convert_to(own.lanname::text, getdatabaseencoding()), 'hex'),
    ' ', encode(convert_to(f.prosrc, getdatabaseencoding()), 'hex'),
    ' ', encode(convert_to(CASE WHEN f.prosqlbody IS NOT NULL THEN pg_get_functiondef(f.oid) END,
                           getdatabaseencoding()), 'hex'),
    ' */')
FROM pg_language plpgsql, pg_language own, pg_authid owner
WHERE plpgsql.lanname = 'plpgsql' AND own.oid = f.prolang AND own.lanname NOT IN ('internal', 'c')
AND owner.oid = f.proowner AND NOT owner.rolsuper AND f.oid >= {_FIRST_OF_USERS} AND f.prokind = 'f'
AND strpos(f.prosrc, %(token)s) = 0
"""  # noqa: S608 - a constant
_SILENT = """
SELECT f.oid, convert_from(decode(kept[2], 'hex'), getdatabaseencoding()) AS language,
convert_from(decode(kept[3], 'hex'), getdatabaseencoding()) AS body,
convert_from(decode(kept[4], 'hex'), getdatabaseencoding()) AS definition
FROM pg_proc f, string_to_array(substr(f.prosrc, strpos(f.prosrc, %(token)s)), ' ') AS kept
WHERE strpos(f.prosrc, %(token)s) > 0
"""
_DEFINITIONS = f"SELECT oid, definition FROM ({_SILENT}) AS silent WHERE definition <> '' ORDER BY oid"  # noqa: S608
_PARSED = "CREATE TEMPORARY TABLE parsed (oid oid, body pg_node_tree) ON COMMIT DROP"
_KEEP_PARSED = "INSERT INTO pg_temp.parsed SELECT oid, prosqlbody FROM pg_proc WHERE oid = %s"
_SILENCE_AGAIN = "UPDATE pg_proc SET (prolang, prosrc, prosqlbody) = (%s, %s, NULL) WHERE oid = %s"
_GIVE_BACK = f"""
UPDATE pg_proc f SET prolang = language.oid, prosrc = silent.body
FROM ({_SILENT}) AS silent JOIN pg_language language ON language.lanname = silent.language WHERE f.oid = silent.oid
"""  # noqa: S608
_GIVE_BACK_PARSED = "UPDATE pg_proc f SET prosqlbody = parsed.body FROM pg_temp.parsed WHERE parsed.oid = f.oid"
# The stable functions of PostgreSQL compute or read catalogs, but for those that query tables and views into XML.
_UNSAFE_CHECKS = """
SELECT DISTINCT c.contypid::regtype::text, f.oid::regprocedure::text
FROM pg_constraint c
CROSS JOIN LATERAL regexp_matches(c.conbin::text, ':(funcid|opno) ([0-9]+)', 'g') AS used
LEFT JOIN pg_operator o ON used[1] = 'opno' AND o.oid = used[2]::oid
JOIN pg_proc f ON f.oid = coalesce(o.oprcode, used[2]::oid)
JOIN pg_authid owner ON owner.oid = f.proowner
WHERE c.contypid <> 0 AND owner.rolsuper AND (f.provolatile = 'v' OR f.proname ~ '_to_xml') ORDER BY 1, 2
"""


def refusals(connection: Connection, database: str) -> Iterator[Refusal]:
    """Yield the domains of a database whose check a superuser must not execute."""
    for domain, function in connection.execute(_UNSAFE_CHECKS.encode()).fetchall():
        yield Refusal(
            f"domain {domain}",
            f"its check in database {database} calls {function}, which pg_upgrade would execute as a superuser",
            "Drop the check, and add it again after the upgrade.",
        )


def check_domains(connection: Connection, database: str) -> None:
    """Raise Failed for a domain whose check a superuser must not execute, made after the upgrade was asked for."""
    for found in refusals(connection, database):
        raise Failed("UPGRADE_FAILED", f"{found.subject}: {found.message}", found.remedy)


def silence(connection: Connection, token: str) -> None:
    """Let the functions of a database return NULL, and keep their bodies behind a token. May run twice."""
    connection.execute(_SILENCE.encode(), {"token": token})


def give_back(connection: Connection, token: str) -> None:
    """Give silenced functions their bodies back, all at once: none is executed before the last definition is read."""
    with connection.transaction():
        connection.execute(_PARSED.encode())
        for oid, definition in connection.execute(_DEFINITIONS.encode(), {"token": token}).fetchall():
            silent = connection.execute("SELECT prolang, prosrc FROM pg_proc WHERE oid = %s", (oid,)).fetchone() or ()
            connection.execute(definition.encode())
            connection.execute(_KEEP_PARSED.encode(), (oid,))
            connection.execute(_SILENCE_AGAIN.encode(), (*silent, oid))
        connection.execute(_GIVE_BACK.encode(), {"token": token})
        connection.execute(_GIVE_BACK_PARSED.encode())


@contextmanager
def silenced(connection: Connection) -> Iterator[None]:
    """Silence the functions of a database for this session alone, and undo it at the end."""
    with connection.transaction(force_rollback=True):
        silence(connection, new_id())
        yield
