"""The database that an import is loaded into, and the roles in it.

What comes from a source is foreign code, which runs while it is loaded. So it is loaded in sessions that log in as the
tenants' admin; the platform's superuser executes only statements of this module, with quoted names.
"""

import contextlib
from collections.abc import Iterator, Sequence

import psycopg

from ramet.backends.interface.sources import Locale, SourceFacts, SourceRole
from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources.destination import is_trusted
from ramet.backends.local.sql import connections, handover, read_only_access
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, PLATFORM_ROLE, POOLER_ROLE, Connection
from ramet.backends.local.sql.roles import ADMIN_MEMBERSHIPS
from ramet.errors import Unavailable
from ramet.machine.waiting import wait_until

NOT_ADMITTED = "NOT_ADMITTED"
_LOGIN_SECONDS = 10.0
_LONG = "3600s"
_SETTINGS = "-c search_path=pg_catalog -c lock_timeout=30s"
_RESERVED = (PLATFORM_ROLE, POOLER_ROLE, ADMIN_ROLE)
_OID = "SELECT oid FROM pg_authid WHERE rolname = %s"
_SCHEMAS = """
SELECT nspname, pg_get_userbyid(nspowner) FROM pg_namespace
WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
"""


def recreate(instances: Instances, server: Server, facts: SourceFacts) -> None:
    """Make the tenants' database again, empty, with the locale of the source."""
    paths = instances.paths(server.service_id)
    with connections.connect(paths, statement_timeout=_LONG) as connection:
        connections.run(connection, "DROP DATABASE IF EXISTS {} WITH (FORCE)", DATABASE)
        clause, values = _locale_clause(facts.locale)
        connections.run(
            connection, f"CREATE DATABASE {{}} OWNER {{}} TEMPLATE template0 {clause}", DATABASE, ADMIN_ROLE, **values
        )
        # An index of a large table may need more temporary files than a session is allowed.
        connections.run(connection, "ALTER ROLE {} IN DATABASE {} SET temp_file_limit = -1", ADMIN_ROLE, DATABASE)
    read_only_access.install(paths, DATABASE)
    instances.secure(server, is_new=True, neutralize=False)


@contextlib.contextmanager
def admitting_admin(instances: Instances, server: Server) -> Iterator[None]:
    """Let this host's own users log in as the admin, over the private socket, until the end of the block.

    Raises Unavailable, with the code NOT_ADMITTED where the server runs, and a tenant has set what prevents it.
    """
    paths = instances.paths(server.service_id)
    instances.config.write(server, Phase.LOADING)
    try:
        postgres.reload(paths)
        if not wait_until(lambda: _refusal(paths, server) is None, _LOGIN_SECONDS, 0.05):
            with connections.connect(paths):
                message = f"The server of service {server.service_id} admits no sessions of {ADMIN_ROLE}"
                raise Unavailable(NOT_ADMITTED, message, _refusal(paths, server) or "")
        yield
    finally:
        if paths.conf.is_dir():
            instances.config.write(server, Phase.CLOSED)
        with contextlib.suppress(Unavailable):
            postgres.reload(paths)


@contextlib.contextmanager
def admin_session(paths: ServicePaths, server: Server, settings: str = _SETTINGS) -> Iterator[Connection]:
    """Open a session that has logged in as the admin, and is no superuser's."""
    with psycopg.connect(
        host=str(paths.sockets), port=server.listen_port, user=ADMIN_ROLE, dbname=DATABASE, sslmode="disable",
        gssencmode="disable", passfile="/nonexistent", application_name="ramet", connect_timeout=10, autocommit=True,
        options=settings,
    ) as connection:  # fmt: skip
        yield connection


def _refusal(paths: ServicePaths, server: Server) -> str | None:
    """Return why the admin cannot log in; None if it can."""
    try:
        with admin_session(paths, server):
            return None
    except psycopg.OperationalError as error:
        return str(error).strip()


def roles_of(facts: SourceFacts, *, owners: bool) -> list[SourceRole]:
    """Return the roles to make here; that of the source's initdb becomes the admin in the end.

    Without `owners` they are those that row security policies name.
    """
    if not owners:
        return [SourceRole(name) for name in facts.policy_roles if name not in _RESERVED]
    made = [role for role in facts.roles if role.name not in _RESERVED and role.name != facts.bootstrap_role]
    return [*made, SourceRole(facts.bootstrap_role)] if _is_mapped(facts) else made


def make_roles(connection: Connection, facts: SourceFacts, *, owners: bool) -> list[str]:
    """Make the roles of a source as the admin, without login; return what could not be made of their memberships."""
    known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
    roles, problems = roles_of(facts, owners=owners), []
    for role in roles:
        if role.name not in known:
            limit = role.connection_limit
            connections.run(connection, f"CREATE ROLE {{}} {_attributes(role)}", role.name, limit=limit)
        if connection.info.server_version < 160000:  # later versions do so by createrole_self_grant
            connections.run(connection, "GRANT {} TO {}", role.name, ADMIN_ROLE)
    grantable = {role.name for role in roles} | set(ADMIN_MEMBERSHIPS)
    for role in roles:
        for group in role.member_of:
            if group in grantable and group != facts.bootstrap_role:
                options = _membership_options(role, group, connection.info.server_version)
                problems += _attempt(connection, f"GRANT {{}} TO {{}}{options}", group, role.name)
    if owners and _is_mapped(facts):  # until the end it owns what the superuser did, who may use everything
        for role in roles:
            if role.name != facts.bootstrap_role:
                problems += _attempt(connection, "GRANT {} TO {}", role.name, facts.bootstrap_role)
    return problems


def make_extensions(instances: Instances, server: Server, facts: SourceFacts) -> None:
    """Make the extensions of a source: as the admin what it may make itself, the rest as the platform."""
    paths, installation = instances.paths(server.service_id), instances.installation_of(server)
    command = "CREATE EXTENSION IF NOT EXISTS {} SCHEMA {}"
    for extension in facts.extensions:
        if is_trusted(installation, extension.name):
            with admin_session(paths, server) as session:
                connections.run(session, command, extension.name, extension.schema)
        else:
            with connections.connect(paths, DATABASE, **connections.EXTENSIONS_LOADED) as platform:
                connections.run(platform, command, extension.name, extension.schema)


@contextlib.contextmanager
def allowing_owners(paths: ServicePaths, roles: Sequence[SourceRole]) -> Iterator[None]:
    """Let roles become owners of objects in all schemas: PostgreSQL asks new owners for the right to create."""
    with connections.connect(paths, DATABASE) as connection:
        schemas = [name for name, _ in connection.execute(_SCHEMAS).fetchall()]
    _allow(paths, "GRANT", "TO", roles, schemas)
    yield
    _allow(paths, "REVOKE", "FROM", roles, schemas)


def _allow(
    paths: ServicePaths, verb: str, preposition: str, roles: Sequence[SourceRole], schemas: Sequence[str]
) -> None:
    with connections.connect(paths, DATABASE, statement_timeout=_LONG) as connection, connection.transaction():
        owners = dict(connection.execute(_SCHEMAS).fetchall())  # a role may have become one, and keeps its rights then
        for role in roles:
            for schema in (name for name in schemas if owners.get(name, role.name) != role.name):
                connections.run(
                    connection, f"{verb} CREATE, USAGE ON SCHEMA {{}} {preposition} {{}}", schema, role.name
                )
            connections.run(connection, f"{verb} CREATE ON DATABASE {{}} {preposition} {{}}", DATABASE, role.name)


def finish(paths: ServicePaths, server: Server, facts: SourceFacts, *, owners: bool) -> list[str]:
    """Give the admin what the source's superuser owned, and take over settings; return what could not be."""
    if owners and _is_mapped(facts):
        # None of the commits is waited for: a later one of the other session makes all of them durable.
        with connections.connect(paths, DATABASE, statement_timeout=_LONG, synchronous_commit="off") as connection:
            handover.give_away(connection, connections.value(connection, _OID, facts.bootstrap_role))
    with connections.connect(paths, DATABASE, statement_timeout=_LONG) as connection:
        if owners and _is_mapped(facts):
            connections.run(connection, "REASSIGN OWNED BY {} TO {}", facts.bootstrap_role, ADMIN_ROLE)
            connections.run(connection, "DROP OWNED BY {}", facts.bootstrap_role)
            connections.run(connection, "DROP ROLE {}", facts.bootstrap_role)
        connections.run(connection, "ALTER ROLE {} IN DATABASE {} RESET temp_file_limit", ADMIN_ROLE, DATABASE)
    with admin_session(paths, server) as session:
        problems = _set_all(session, "ALTER DATABASE {} SET ", (DATABASE,), facts.settings)
        for role in roles_of(facts, owners=owners):
            if role.name != facts.bootstrap_role:
                problems += _set_all(session, "ALTER ROLE {} SET ", (role.name,), role.settings)
                own = tuple(setting for name, setting in facts.role_settings if name == role.name)
                problems += _set_all(session, "ALTER ROLE {} IN DATABASE {} SET ", (role.name, DATABASE), own)
    return problems


def _set_all(session: Connection, command: str, names: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Store settings with their values as they are; return those that the admin may not set."""
    problems = []
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            with session.transaction():
                session.execute("SELECT set_config(%s, %s, true)", (name, value))
                connections.run(session, f"{command}{{}} FROM CURRENT", *names, name)
        except psycopg.Error as error:
            problems.append(f"{command.format(*names)}{setting}: {error.diag.message_primary or error}")
    return problems


def _attempt(session: Connection, command: str, *names: str) -> list[str]:
    try:
        connections.run(session, command, *names)
    except psycopg.Error as error:
        return [f"{command.format(*names)}: {error.diag.message_primary or error}"]
    return []


def _attributes(role: SourceRole) -> str:
    words = ["NOLOGIN", "INHERIT" if role.inherits else "NOINHERIT", "CONNECTION LIMIT {limit}"]
    words += ["CREATEDB"] * (role.creates_databases and not role.is_superuser)
    words += ["CREATEROLE"] * (role.creates_roles and not role.is_superuser)
    return " ".join(words)


def _membership_options(role: SourceRole, group: str, server_version: int) -> str:
    """Return the options of a membership that are not those of every GRANT."""
    found = next((one for one in role.membership_options if one.role == group), None)
    if found is None:
        return ""
    words = ["ADMIN OPTION"] * found.is_admin
    if server_version >= 160000:
        given = (("INHERIT", found.inherits), ("SET", found.may_set))
        words += [f"{name} {'TRUE' if value else 'FALSE'}" for name, value in given if value is not None]
    return f" WITH {', '.join(words)}" if words else ""


def _is_mapped(facts: SourceFacts) -> bool:
    return facts.bootstrap_role not in _RESERVED and not facts.bootstrap_role.startswith("pg_")


def _locale_clause(locale: Locale) -> tuple[str, dict[str, str | int | None]]:
    """Return the options of CREATE DATABASE for a locale, and the values in them."""
    is_plain = locale.encoding != "UTF8"
    values: dict[str, str | int | None] = {
        "collate": "C" if is_plain else locale.collate,
        "ctype": "C" if is_plain else locale.ctype,
        "provider": locale.provider,
    }
    clause = "ENCODING 'UTF8' LOCALE_PROVIDER {provider} LC_COLLATE {collate} LC_CTYPE {ctype}"
    if locale.name is not None and locale.provider != "libc":
        clause += f" {'ICU' if locale.provider == 'icu' else 'BUILTIN'}_LOCALE {{name}}"
        values["name"] = locale.name
    if locale.rules is not None:
        clause += " ICU_RULES {rules}"
        values["rules"] = locale.rules
    return clause, values
