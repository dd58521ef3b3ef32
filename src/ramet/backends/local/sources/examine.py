"""Read what an import depends on in a source, by SQL that PostgreSQL 10 and later understand."""

from collections.abc import Sequence
from typing import Any

from ramet.backends.interface.sources import (
    Locale,
    MembershipOptions,
    SourceExtension,
    SourceFacts,
    SourcePublication,
    SourceRole,
)
from ramet.backends.local.sql.connections import Connection, rows
from ramet.backends.local.sql.withheld_roles import WITHHELD_ROLES
from ramet.errors import Invalid

OLDEST_MAJOR = 10
OWN_SCHEMA = "timescale_functions"  # of a source that is a service of Ramet
_PROVIDERS = {"c": "libc", "i": "icu", "b": "builtin", "d": "libc"}
_MOST_NAMES = 200

# What pg_dump takes: no system schemas, and nothing that belongs to an extension.
_OURS = f"""n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', '{OWN_SCHEMA}')
AND NOT EXISTS (
    SELECT FROM pg_depend e WHERE e.classid = '{{catalog}}'::regclass AND e.objid = o.oid AND e.deptype = 'e')
"""
_BASIC = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000,
    pg_database_size(current_database()), pg_encoding_to_char(encoding), datcollate, datctype,
    (SELECT rolname FROM pg_roles WHERE oid = 10)
FROM pg_database WHERE datname = current_database()
"""
_ROLES = """
SELECT r.oid, rolname, rolsuper, rolcreaterole, rolcreatedb, rolinherit, rolreplication, rolbypassrls,
    rolconnlimit, rolconfig, ARRAY(SELECT roleid FROM pg_auth_members m WHERE m.member = r.oid)
FROM pg_roles r
"""
# Several roles may have granted the same membership, and the options of all count.
_OPTIONS = "SELECT member, roleid, bool_or(admin_option), {} FROM pg_auth_members GROUP BY 1, 2"
_OPTIONS_SINCE_16 = "bool_or(inherit_option), bool_or(set_option)"
_DEPENDED_ON = """
SELECT DISTINCT refobjid FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass
AND (dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) OR dbid = 0
     AND classid = 'pg_database'::regclass AND objid = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
_TABLES = f"""
SELECT format('%I.%I', nspname, relname), relkind IN ('r', 'p'),
    has_schema_privilege(n.oid, 'USAGE') AND CASE relkind WHEN 'S' THEN has_sequence_privilege(o.oid, 'SELECT')
        ELSE has_table_privilege(o.oid, 'SELECT') END,
    CASE WHEN relrowsecurity THEN row_security_active(o.oid) ELSE false END, relowner = 10
FROM pg_class o JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p', 'm', 'v', 'S') AND relpersistence <> 't' AND {_OURS.format(catalog="pg_class")} ORDER BY 1
"""  # noqa: S608 - all of it is ours
_FOREIGN_LARGE_OBJECTS = """
SELECT count(*), count(*) FILTER (WHERE NOT pg_has_role(lomowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM aclexplode(lomacl) a WHERE privilege_type = 'SELECT' AND (grantee = 0 OR pg_has_role(grantee, 'USAGE'))
)) FROM pg_largeobject_metadata
"""
_NAMES: dict[str, str] = {
    "withheld_in_policies": f"""SELECT rolname FROM pg_roles r WHERE rolname IN {WITHHELD_ROLES}
        AND EXISTS (SELECT FROM pg_policy WHERE r.oid = ANY (polroles)) ORDER BY 1""",  # noqa: S608 - ours
    "withheld_owners": f"""SELECT rolname FROM pg_roles r WHERE rolname IN {WITHHELD_ROLES}
        AND oid IN (SELECT relowner FROM pg_class UNION SELECT nspowner FROM pg_namespace
            UNION SELECT proowner FROM pg_proc UNION SELECT typowner FROM pg_type) ORDER BY 1""",  # noqa: S608 - ours
    "policy_roles": """SELECT DISTINCT rolname FROM pg_policy JOIN pg_roles r ON r.oid = ANY (polroles)
        WHERE rolname NOT LIKE 'pg\\_%' ORDER BY 1""",
    "subscriptions": """SELECT subname FROM pg_subscription
        WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1""",
    "event_triggers": """SELECT evtname FROM pg_event_trigger o WHERE NOT EXISTS (SELECT FROM pg_depend e
        WHERE e.classid = 'pg_event_trigger'::regclass AND e.objid = o.oid AND e.deptype = 'e')
        AND evtname <> 'ramet_begin_session' ORDER BY 1""",
    "tablespaces": """SELECT spcname FROM pg_tablespace t WHERE spcname NOT LIKE 'pg\\_%' AND (
        EXISTS (SELECT FROM pg_class WHERE reltablespace = t.oid)
        OR EXISTS (SELECT FROM pg_database WHERE dattablespace = t.oid AND datname = current_database())) ORDER BY 1""",
    "database_privileges": """SELECT datacl::text FROM pg_database
        WHERE datname = current_database() AND datacl <> acldefault('d', datdba)""",
    "other_databases": """SELECT datname FROM pg_database
        WHERE NOT datistemplate AND datname NOT IN (current_database(), 'postgres') ORDER BY 1""",
}
# Any role makes aggregates, though their language is internal, unless their state is internal, too.
_FOR_SUPERUSERS = f"""
SELECT 'function in language ' || lanname, format('%I.%I', nspname, proname) FROM pg_proc o
    JOIN pg_namespace n ON n.oid = pronamespace JOIN pg_language l ON l.oid = prolang
    WHERE NOT lanpltrusted AND lanname <> 'sql' AND {_OURS.format(catalog="pg_proc")}
    AND NOT EXISTS (SELECT FROM pg_aggregate
        WHERE aggfnoid = o.oid AND 'internal'::regtype NOT IN (aggtranstype, aggmtranstype))
UNION ALL SELECT 'base type', format('%I.%I', nspname, typname) FROM pg_type o JOIN pg_namespace n
    ON n.oid = typnamespace WHERE typtype = 'b' AND typelem = 0 AND {_OURS.format(catalog="pg_type")}
UNION ALL SELECT 'operator class', format('%I.%I', nspname, opcname) FROM pg_opclass o JOIN pg_namespace n
    ON n.oid = opcnamespace WHERE {_OURS.format(catalog="pg_opclass")}
UNION ALL SELECT 'text search parser', format('%I.%I', nspname, prsname) FROM pg_ts_parser o JOIN pg_namespace n
    ON n.oid = prsnamespace WHERE {_OURS.format(catalog="pg_ts_parser")}
UNION ALL SELECT 'text search template', format('%I.%I', nspname, tmplname) FROM pg_ts_template o JOIN pg_namespace n
    ON n.oid = tmplnamespace WHERE {_OURS.format(catalog="pg_ts_template")}
UNION ALL SELECT 'foreign server', srvname FROM pg_foreign_server
UNION ALL SELECT 'binary cast', format('%s AS %s', castsource::regtype, casttarget::regtype) FROM pg_cast o
    WHERE castmethod = 'b' AND o.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend e
        WHERE e.classid = 'pg_cast'::regclass AND e.objid = o.oid AND e.deptype = 'e')
LIMIT {_MOST_NAMES}
"""  # noqa: S608 - all of it is ours
_SETTINGS = """
SELECT rolname, unnest(setconfig) FROM pg_db_role_setting LEFT JOIN pg_roles r ON r.oid = setrole
WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def read_facts(connection: Connection) -> SourceFacts:
    """Return what an import depends on. Raises Invalid for a server that is too old."""
    version, major, size, encoding, collate, ctype, bootstrap = rows(connection, _BASIC)[0]
    if major < OLDEST_MAJOR:
        raise Invalid(
            "SOURCE_TOO_OLD",
            f"The source is PostgreSQL {version}, and an import needs {OLDEST_MAJOR} or later",
            "Upgrade the source first.",
        )
    relations = rows(connection, _TABLES)
    large_objects, foreign = rows(connection, _FOREIGN_LARGE_OBJECTS)[0]
    unreadable = [name for name, _, is_readable, *_ in relations if not is_readable]
    unreadable += [f"{foreign} large objects"] if foreign else []
    settings = rows(connection, _SETTINGS)
    names = {field: tuple(name for (name,) in rows(connection, query)) for field, query in _NAMES.items()}
    return SourceFacts(
        version=version,
        major=major,
        locale=_locale(connection, major, encoding, collate, ctype),
        size_bytes=size,
        table_count=sum(1 for _, is_table, *_ in relations if is_table),
        large_object_count=large_objects,
        bootstrap_role=bootstrap,
        bootstrap_owns=sum(1 for *_, is_bootstrap in relations if is_bootstrap),
        roles=_roles(connection, major),
        extensions=_extensions(connection),
        publications=_publications(connection, major),
        for_superusers=tuple((kind, name) for kind, name in rows(connection, _FOR_SUPERUSERS)),
        unreadable=tuple(unreadable[:_MOST_NAMES]),
        row_secured=tuple(name for name, _, _, is_secured, _ in relations if is_secured)[:_MOST_NAMES],
        settings=tuple(setting for role, setting in settings if role is None),
        role_settings=tuple((role, setting) for role, setting in settings if role is not None),
        **names,
    )


def _locale(connection: Connection, major: int, encoding: str, collate: str, ctype: str) -> Locale:
    if major < 15:
        return Locale(encoding, "libc", collate, ctype)
    name = "datlocale" if major >= 17 else "daticulocale"
    rules = "daticurules" if major >= 16 else "NULL"
    query = f"SELECT datlocprovider, {name}, {rules} FROM pg_database WHERE datname = current_database()"  # noqa: S608
    provider, name, rules = rows(connection, query)[0]
    return Locale(encoding, _PROVIDERS.get(provider, provider), collate, ctype, name, rules)


def _roles(connection: Connection, major: int) -> tuple[SourceRole, ...]:
    """Return the roles that the database depends on, with those that they are members of, and their members."""
    found = {row[0]: row for row in rows(connection, _ROLES)}
    wanted = {oid for (oid,) in rows(connection, _DEPENDED_ON)}
    wanted |= {oid for oid, row in found.items() if wanted & set(row[-1])}
    waiting = list(wanted & found.keys())
    while waiting:
        above = (set(found[waiting.pop()][-1]) & found.keys()) - wanted
        waiting += above
        wanted |= above
    options: dict[int, list[MembershipOptions]] = {oid: [] for oid in wanted}
    for member, oid, *words in rows(connection, _OPTIONS.format(_OPTIONS_SINCE_16 if major >= 16 else "NULL, NULL")):
        if member in wanted and oid in found:
            options[member].append(MembershipOptions(found[oid][1], *words))
    made = [_role(row, found, tuple(options[oid])) for oid, row in found.items() if oid in wanted]
    return tuple(sorted((one for one in made if not one.name.startswith("pg_")), key=lambda one: one.name))


def _role(row: Sequence[Any], found: dict[int, tuple[Any, ...]], options: tuple[MembershipOptions, ...]) -> SourceRole:
    _, name, superuser, creates_roles, creates_databases, inherits, replicates, bypasses, limit, config, of = row
    return SourceRole(
        name=name,
        is_superuser=superuser,
        creates_roles=creates_roles,
        creates_databases=creates_databases,
        inherits=inherits,
        replicates=replicates,
        bypasses_row_security=bypasses,
        connection_limit=limit,
        settings=tuple(config or ()),
        member_of=tuple(sorted(found[oid][1] for oid in of if oid in found)),
        membership_options=options,
    )


def _extensions(connection: Connection) -> tuple[SourceExtension, ...]:
    found = rows(
        connection,
        "SELECT extname, extversion, nspname FROM pg_extension x JOIN pg_namespace n ON n.oid = extnamespace"
        " WHERE extname <> 'plpgsql' ORDER BY 1",
    )
    return tuple(SourceExtension(*row) for row in found)


def _publications(connection: Connection, major: int) -> tuple[SourcePublication, ...]:
    schemas = "EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = p.oid)" if major >= 15 else "false"
    query = f"""SELECT oid::int8, pubname, puballtables OR {schemas},
        ARRAY(SELECT oid::int8 FROM pg_publication_rel WHERE prpubid = p.oid) FROM pg_publication p ORDER BY 2"""  # noqa: S608
    return tuple(
        SourcePublication(oid, name, needs_superuser, tuple(relations))
        for oid, name, needs_superuser, relations in rows(connection, query)
    )
