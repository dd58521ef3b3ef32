"""What an upgrade of a serving server depends on: extensions and libraries, and what pg_upgrade refuses."""

import re
from collections.abc import Iterator, Sequence

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, statement_statistics
from ramet.backends.local.sql.concurrent_changes import LOCKED
from ramet.backends.local.sql.connections import DATABASE, PLATFORM_ROLE, Connection
from ramet.backends.local.sql.raw_names import convert_texts, is_utf8, shown, shown_values
from ramet.machine.installation import Installation
from ramet.model.upgrade import Refusal, Statement, UpgradeExtension, UpgradeFacts

_MOST_STATEMENTS, _LONGEST_STATEMENT = 20, 4000
_FIRST_OF_USERS = 16384
_DEFAULT_VERSION = re.compile(r"^\s*default_version\s*=\s*'([^']*)'", re.MULTILINE)
_EXTENSIONS = "SELECT extname, extversion FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1"
_LIBRARIES = f"SELECT DISTINCT probin FROM pg_proc WHERE probin IS NOT NULL AND oid >= {_FIRST_OF_USERS} ORDER BY 1"  # noqa: S608
_CLOSED = """
SELECT datname FROM pg_database WHERE NOT datallowconn AND datconnlimit <> -2 AND datname <> 'template0' ORDER BY 1
"""
_INVALID = "SELECT datname FROM pg_database WHERE datconnlimit = -2 ORDER BY 1"
_SUBSCRIPTIONS = "SELECT subname FROM pg_subscription ORDER BY 1"
_PREPARED = "SELECT database, gid FROM pg_prepared_xacts ORDER BY 1, 2"
_STATEMENTS = """
SELECT query, sum(calls)::bigint FROM {counted}
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND toplevel
AND userid <> {platform}::regrole AND query ~* '^\\s*(select|insert|update|delete|merge|with)\\M'
AND length(query) <= {longest} GROUP BY query ORDER BY sum(total_exec_time) DESC LIMIT {most}
"""


def examine(paths: ServicePaths, old: Installation, new: Installation) -> UpgradeFacts:
    """Read what the upgrade of a serving server depends on. Raises Unavailable when it is not serving."""
    with connections.connect(paths) as connection:
        databases = [each.name for each in connections.databases(connection) if each.is_open]
        refusals = [*_cluster_refusals(connection, new)]
    extensions: list[UpgradeExtension] = []
    for name in ["template1", *databases]:
        with connections.connect(paths, name) as connection:
            found = [
                UpgradeExtension(shown(name), extension, version, _new_version(new, extension))
                for extension, version in connection.execute(_EXTENSIONS).fetchall()
            ]
            refusals += _extension_refusals(connection, name, found, new)
        extensions += found
    statements, note = _statements(paths) if DATABASE in databases else ((), f"There is no database {DATABASE}.")
    said = tuple(Refusal(*shown_values((one.subject, one.message, one.remedy))) for one in refusals)
    return UpgradeFacts(old.version, new.version, tuple(extensions), tuple(statements), note, said)


def _cluster_refusals(connection: Connection, new: Installation) -> Iterator[Refusal]:
    if not (new.bin / "pg_upgrade").is_file():
        yield Refusal(
            "pg_upgrade", f"PostgreSQL {new.version} in {new.bin} has no pg_upgrade", "Install its complete package."
        )
    for (name,) in connection.execute(_CLOSED).fetchall():
        yield Refusal(
            f"database {name}",
            "it accepts no connections, and pg_upgrade has to read it",
            f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true, or drop it.',
        )
    for name in (shown(name) for (name,) in connection.execute(_INVALID).fetchall()):
        yield Refusal(
            f"database {name}", "its removal was interrupted, and pg_upgrade refuses it", f'DROP DATABASE "{name}".'
        )
    for (name,) in connection.execute(_SUBSCRIPTIONS).fetchall():
        yield Refusal(
            f"subscription {name}",
            "pg_upgrade would lose what it has received so far",
            "Drop it, and create it again after the upgrade.",
        )
    for database, gid in connection.execute(_PREPARED).fetchall():
        yield Refusal(
            f"prepared transaction {gid}",
            f"database {database} has it, and pg_upgrade cannot carry prepared transactions over",
            "Commit it or roll it back.",
        )


def _extension_refusals(
    connection: Connection, database: str, extensions: Sequence[UpgradeExtension], new: Installation
) -> Iterator[Refusal]:
    missing = [one.name for one in extensions if one.new_version is None]
    for name in missing:
        yield Refusal(
            f"extension {name}",
            f"database {database} uses it, and PostgreSQL {new.version} in {new.bin} does not have it",
            f"Install it for PostgreSQL {new.major}, or drop it.",
        )
    for (library,) in connection.execute(_LIBRARIES).fetchall():
        name = library.removeprefix("$libdir/").removesuffix(".so")
        if not name.startswith("/") and not new.has_library(name) and name.partition("-")[0] not in missing:
            yield Refusal(
                f"library {name}",
                f"functions of database {database} use it, and PostgreSQL {new.version} in {new.bin} does not have it",
                f"Install this version of it for PostgreSQL {new.major}, or drop the functions.",
            )


def _new_version(new: Installation, extension: str) -> str | None:
    control = new.share / "extension" / f"{extension}.control"
    if not control.is_file():
        return None
    found = _DEFAULT_VERSION.search(control.read_text(errors="replace"))
    return "" if found is None else found[1]


def _statements(paths: ServicePaths) -> tuple[Sequence[Statement], str | None]:
    """Return the statements that took the most time, or why they are unknown.

    One that is no UTF-8 is left out: it could only be planned as another one.
    """
    with connections.connect(paths, DATABASE) as connection:
        convert_texts(connection)
        try:
            rows = statement_statistics.query(
                connection, _STATEMENTS, platform=PLATFORM_ROLE, longest=_LONGEST_STATEMENT, most=_MOST_STATEMENTS
            )
        except LOCKED:
            return (), "No plans are compared: a transaction locks pg_stat_statements."
        except statement_statistics.UNREADABLE:
            unfit = f"the text of a statement of another database does not fit the encoding of {DATABASE}"
            return (), f"No plans are compared: {unfit}."
    if rows is None:
        missing = f"database {DATABASE} does not have pg_stat_statements as its extension installs it"
        return (), f"No plans are compared: {missing}."
    if not rows:
        return (), f"No plans are compared: pg_stat_statements has no statement of database {DATABASE} yet."
    return [Statement(text, calls) for text, calls in rows if is_utf8(text)], None
