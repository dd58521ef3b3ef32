"""Checks of domains accept everything while a superuser restores the definitions of tenants.

A constant of a composite type, an array or a range is checked against the domains in it when it is read: in a view, a
default, the bound of a partition or the statistics of a column. Such a check may execute any function, also one of
PostgreSQL that writes files. So each of a domain of a role that is no superuser is exchanged for one that tests a text,
which is the check itself, behind a token that no tenant can know; so it passes through pg_upgrade.
"""

from collections.abc import Iterator

from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.raw_names import encoded

_TO_SILENCE = """
SELECT c.oid, t.oid::regtype::text,
encode(convert_to(pg_get_constraintdef(c.oid), getdatabaseencoding()), 'hex')
FROM pg_constraint c JOIN pg_type t ON t.oid = c.contypid JOIN pg_authid owner ON owner.oid = t.typowner
WHERE c.contype = 'c' AND NOT owner.rolsuper AND strpos(pg_get_constraintdef(c.oid), %s) = 0 ORDER BY c.oid
"""
_SILENT = """
SELECT c.oid, c.contypid::regtype::text, convert_from(decode(kept[1], 'hex'), getdatabaseencoding())
FROM pg_constraint c, regexp_match(pg_get_constraintdef(c.oid), %s::text || ' ([0-9a-f]*)''') AS kept
WHERE c.contypid <> 0 AND c.contype = 'c' AND kept IS NOT NULL ORDER BY c.oid
"""
_NOT_VALID = " NOT VALID"  # it is added without a look at any row
_LIKE = """
UPDATE pg_constraint c SET conbin = other.conbin FROM pg_constraint other
WHERE c.oid = %s AND other.contypid = c.contypid AND other.conname = %s
"""
_PARSED = "CREATE TEMPORARY TABLE parsed_checks (oid oid, body pg_node_tree) ON COMMIT DROP"
_KEEP_PARSED = """
INSERT INTO pg_temp.parsed_checks SELECT c.oid, other.conbin FROM pg_constraint c
JOIN pg_constraint other ON other.contypid = c.contypid AND other.conname = %s WHERE c.oid = %s
"""
_DROP_DEPENDENCIES = "DELETE FROM pg_depend WHERE classid = 'pg_constraint'::regclass AND objid = %s AND deptype = 'n'"
_MOVE_DEPENDENCIES = """
UPDATE pg_depend d SET objid = c.oid FROM pg_constraint c
JOIN pg_constraint other ON other.contypid = c.contypid AND other.conname = %s
WHERE c.oid = %s AND d.classid = 'pg_constraint'::regclass AND d.objid = other.oid AND d.deptype = 'n'
"""
_GIVE_BACK = "UPDATE pg_constraint c SET conbin = kept.body FROM pg_temp.parsed_checks kept WHERE kept.oid = c.oid"


def silence(connection: Connection, token: str) -> None:
    """Let the checks of a database's domains accept everything, and keep them behind a token. May run twice."""
    with connection.transaction():
        for oid, domain, kept in connection.execute(_TO_SILENCE.encode(), (token,)).fetchall():
            name = f"{token}_{oid}"  # of its own, for the index keeps entries of dropped ones until the commit
            _add(connection, domain, name, f"CHECK ('{token} {kept}' IS NOT NULL)")
            connection.execute(_LIKE.encode(), (oid, name))
            _drop(connection, domain, name)


def parse_definitions(connection: Connection, token: str) -> Iterator[str]:
    """Parse the silenced checks, which stay silent; the results last as long as the transaction.

    Yields the name of each domain before its check is parsed.
    """
    connection.execute(_PARSED.encode())
    for oid, domain, definition in connection.execute(_SILENT.encode(), (token,)).fetchall():
        yield f"domain {domain}"
        name = f"{token}_{oid}"
        _add(connection, domain, name, definition.removesuffix(_NOT_VALID))
        connection.execute(_KEEP_PARSED.encode(), (name, oid))
        connection.execute(_DROP_DEPENDENCIES.encode(), (oid,))
        connection.execute(_MOVE_DEPENDENCIES.encode(), (name, oid))
        _drop(connection, domain, name)


def give_back(connection: Connection) -> None:
    """Put the checks in force that were parsed in this transaction."""
    connection.execute(_GIVE_BACK.encode())


def _add(connection: Connection, domain: str, name: str, check: str) -> None:
    connection.execute(encoded(f"ALTER DOMAIN {domain} ADD CONSTRAINT {name} {check}{_NOT_VALID}"))


def _drop(connection: Connection, domain: str, name: str) -> None:
    connection.execute(encoded(f"ALTER DOMAIN {domain} DROP CONSTRAINT {name}"))
