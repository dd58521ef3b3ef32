"""The passwords of a server's roles, carried over to data that takes its place, in a private file until then."""

from pathlib import Path

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import PLATFORM_ROLE, POOLER_ROLE

_NOTE = "passwords.json"
_ROLES = "rolname <> ALL(%s) AND (rolcanlogin OR rolpassword IS NOT NULL)"
_OWN = [PLATFORM_ROLE, POOLER_ROLE]
_Noted = list[tuple[str, str | None]] | dict[str, str | None]  # by name: of an earlier release


def note(server: ServicePaths, beside: ServicePaths) -> None:
    """Write the verifiers of a running server's roles to a file in another directory. May run again.

    Each goes by the digest of its role's name, whose bytes may be no UTF-8.
    """
    with connections.connect(server) as connection:
        query = f"SELECT md5(rolname), rolpassword FROM pg_authid WHERE {_ROLES}"  # noqa: S608 - a constant
        found = connection.execute(query, (_OWN,)).fetchall()
    files.write(_note(beside), msgspec.json.encode(found), durable=True)


def are_noted(beside: ServicePaths) -> bool:
    """Tell whether verifiers were written to another directory."""
    return _note(beside).exists()


def apply(server: ServicePaths, beside: ServicePaths) -> None:
    """Set the noted verifiers in a running server, for the roles that it has. Nothing noted is no error."""
    try:
        noted = msgspec.json.decode(files.read_bytes(_note(beside)), type=_Noted)
    except GONE:
        return
    with connections.connect(server) as connection, connection.transaction():
        role = "rolname = %s" if isinstance(noted, dict) else "md5(rolname) = %s"
        for key, verifier in noted.items() if isinstance(noted, dict) else noted:
            # As in `roles`: ALTER ROLE would compare the verifier with the empty password first.
            query = f"UPDATE pg_authid SET rolpassword = %s WHERE {role} AND {_ROLES}"  # noqa: S608 - a constant
            connection.execute(query, (verifier, key, _OWN))


def _note(paths: ServicePaths) -> Path:
    return paths.root / _NOTE
