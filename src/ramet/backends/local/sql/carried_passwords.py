"""The passwords of a server's roles, carried over to data that takes its place, in a private file until then."""

from pathlib import Path

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, POOLER_ROLE
from ramet.backends.local.sql.raw_names import is_utf8

_NOTE = "passwords.json"
_ROLES = "rolname <> ALL(%s) AND (rolcanlogin OR rolpassword IS NOT NULL)"
_OWN = [PLATFORM_ROLE, POOLER_ROLE]


def note(server: ServicePaths, beside: ServicePaths) -> None:
    """Write the verifiers of a running server's roles to a file in another directory. May run again."""
    with connections.connect(server) as connection:
        query = f"SELECT rolname, rolpassword FROM pg_authid WHERE {_ROLES}"  # noqa: S608 - a constant
        known: dict[str, str | None] = dict(connection.execute(query, (_OWN,)).fetchall())
    found = {name: verifier for name, verifier in known.items() if is_utf8(name)}  # no other name can be stored
    files.write(_note(beside), msgspec.json.encode(found), durable=True)


def are_noted(beside: ServicePaths) -> bool:
    """Tell whether verifiers were written to another directory."""
    return _note(beside).exists()


def apply(server: ServicePaths, beside: ServicePaths) -> None:
    """Set the noted verifiers in a running server, for the roles that it has. Nothing noted is no error."""
    try:
        noted = msgspec.json.decode(files.read_bytes(_note(beside)), type=dict[str, str | None])
    except GONE:
        return
    with connections.connect(server) as connection, connection.transaction():
        for name, verifier in noted.items():
            # As in `roles`: ALTER ROLE would compare the verifier with the empty password first.
            query = f"UPDATE pg_authid SET rolpassword = %s WHERE rolname = %s AND {_ROLES}"  # noqa: S608 - a constant
            connection.execute(query, (verifier, name, _OWN))


def _note(paths: ServicePaths) -> Path:
    return paths.root / _NOTE
