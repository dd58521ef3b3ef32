"""Whether another Ramet may stream from a server: files beside its data, which each configuration is written by."""

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections, mover
from ramet.backends.local.sql.mover import MOVER_ROLE

FIRST_REFUSAL = "local replication all reject"  # what admits a copy comes before it
_KEEPS = "wal_keep_size"
_ADMITTED, _REFUSED = "copy.admitted", "copy.refused"


def admit(paths: ServicePaths) -> None:
    """Record that a copy may stream."""
    files.write(paths.root / _ADMITTED, durable=True)


def refuse(paths: ServicePaths) -> bool:
    """Record that no copy may stream any more; the role of the copy is to be removed. False: there was none."""
    admitted, refused = paths.root / _ADMITTED, paths.root / _REFUSED
    if admitted.exists():
        admitted.rename(refused)
    return refused.exists()


def is_admitted(paths: ServicePaths) -> bool:
    """Tell whether a copy may stream."""
    return (paths.root / _ADMITTED).exists()


def clear(paths: ServicePaths) -> None:
    """Remove the role of a copy that is not admitted any more from a serving server. Raises Unavailable."""
    refused = paths.root / _REFUSED
    if refused.exists():
        with connections.connect(paths) as connection, connection.transaction():
            mover.remove(connection)
        refused.unlink(missing_ok=True)


def keeping_wal(config: str, wal_mbs: int) -> str:
    """Return a postgresql.conf by which a copy finds the WAL that it has not received yet.

    Without that the checkpoint of a shutdown removes WAL that is still being sent.
    """
    return f"{keeping_no_wal(config)}{_KEEPS} = '{wal_mbs}MB'\n"


def keeping_no_wal(config: str) -> str:
    """Return a postgresql.conf without what keeps WAL for a copy."""
    return "".join(line for line in config.splitlines(keepends=True) if not line.startswith(f"{_KEEPS} = "))


def admitting(hba: str, has_tls: bool) -> str:
    """Return a pg_hba.conf with the lines that admit a copy, whatever else it has."""
    added = "".join(f"{line}\n" for line in _rules(has_tls))
    return refusing(hba).replace(FIRST_REFUSAL, f"{added}{FIRST_REFUSAL}", 1)


def refusing(hba: str) -> str:
    """Return a pg_hba.conf without the lines that admit a copy."""
    return "".join(line for line in hba.splitlines(keepends=True) if f" {MOVER_ROLE} " not in line)


def _rules(has_tls: bool) -> list[str]:
    """Return the lines of pg_hba.conf that admit a copy: by TLS from anywhere, without it from this host."""
    addresses = [("hostssl", "all")] if has_tls else [("host", "127.0.0.1/32"), ("host", "::1/128")]
    return [f"{kind} replication {MOVER_ROLE} {address} scram-sha-256" for kind, address in addresses]
