"""The settings that services of this host have of their own: tried by PostgreSQL itself, and put in force online."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import psycopg

from ramet.backends.interface.parameters import InForce
from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.process import postgres
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.errors import Failed, Invalid, Unavailable

_AUTO_EXPLAIN = "auto_explain"
_AT_A_START = "postmaster"
# A setting that a later file sets, too, is not applied either, but has no error.
_UNAPPLIED = """
SELECT f.name, f.error, coalesce(s.context, '')
FROM pg_file_settings f LEFT JOIN pg_show_all_settings() s ON s.name = f.name
WHERE NOT f.applied AND f.error IS NOT NULL
"""
# The platform's sessions have values of their own for what sessions may set: the file says what others get.
_IN_FILE = "SELECT name, setting FROM pg_file_settings WHERE name IS NOT NULL ORDER BY seqno"
_KNOWN = """
SELECT name, context, setting, boot_val, coalesce(unit, ''), short_desc FROM pg_show_all_settings()
"""


@dataclass(frozen=True)
class LocalParameters:
    """The settings of this host's servers; obeys ramet.backends.interface.parameters.Parameters."""

    instances: Instances

    def check(self, server: Server) -> None:
        installation = self.instances.installation_of(server)
        explained = any(name.startswith(f"{_AUTO_EXPLAIN}.") for name, _ in server.parameters)
        if explained and not installation.has_library(_AUTO_EXPLAIN):
            raise Invalid(
                "EXTENSION_MISSING",
                f"PostgreSQL {server.pg_major} on this host has no library {_AUTO_EXPLAIN}",
                "Install PostgreSQL's contrib modules there.",
            )
        said = self.instances.config.why_unreadable(server)
        if said is not None:
            raise Invalid("INVALID_SETTING", "PostgreSQL does not accept these settings", said)

    def apply(self, server: Server) -> Collection[str]:
        paths = self.instances.paths(server.service_id)
        if not postgres.is_ready(paths):
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {server.service_id} is not serving")
        in_force = files.read_existing(paths.config_file)
        self.instances.config.write(server, Phase.OPEN)
        try:
            with connections.connect(paths) as connection:
                left = connection.execute(_UNAPPLIED).fetchall()
            wrong = [f"{name or 'the file'}: {error}" for name, error, context in left if context != _AT_A_START]
            if wrong:
                raise Failed("SETTINGS_NOT_ACCEPTED", f"PostgreSQL does not accept {'; '.join(wrong)}")
        except (Failed, Unavailable, psycopg.Error):
            files.write(paths.config_file, in_force)
            raise
        postgres.reload(paths)
        return [str(name) for name, _, _ in left]

    def in_force(self, server: Server, names: Collection[str]) -> Mapping[str, InForce]:
        paths = self.instances.paths(server.service_id)
        try:
            with connections.connect(paths, timeout_seconds=3, statement_timeout="3s") as connection:
                in_file = dict(connection.execute(_IN_FILE).fetchall())
                known = connection.execute(_KNOWN).fetchall()
        except psycopg.OperationalError as error:
            raise Unavailable("SERVER_BUSY", f"The server of service {server.service_id} did not answer") from error
        found = {name: InForce(in_file.get(name)) for name in names}
        for name, context, setting, default, unit, description in known:
            if name in found:
                usual = None if default is None else default + ("" if default in ("0", "-1") else unit)
                value = setting + unit if context == _AT_A_START else in_file.get(name, usual)
                is_pending = context == _AT_A_START and in_file.get(name, setting) != setting
                found[name] = InForce(value, is_pending, description)
        return found
