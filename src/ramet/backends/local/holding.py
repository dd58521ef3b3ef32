"""Read-only sessions while the storage is nearly full: a server that cannot write its WAL goes down, with all others.

PostgreSQL's own switch is used. A session may switch it off for itself, to drop what takes the room.
"""

from datetime import UTC, datetime

from ramet.backends.local import processes, sql
from ramet.backends.local.account import Account
from ramet.backends.local.paths import ServicePaths

_MIB = 1024**2
_SHARE = 20
_LEAST_BYTES, _MOST_BYTES = 128 * _MIB, 2048 * _MIB
_LEAST_TEMP_FILE_MBS, _MOST_TEMP_FILE_MBS = 64, 65536
# Frequent checkpoints: each gives the room back of WAL that is archived.
_SETTINGS = "default_transaction_read_only = 'on'\ncheckpoint_timeout = '30s'\n"


def shortage(free_bytes: int, total_bytes: int, *, lasting: bool) -> str | None:
    """Say how little room is left; None while it is enough, which takes twice as much when it was not before."""
    limit = min(max(total_bytes // _SHARE, _LEAST_BYTES), _MOST_BYTES)
    if free_bytes >= (2 * limit if lasting else limit):
        return None
    return (
        f"The storage has {free_bytes // _MIB} MiB left: sessions are read-only until it has {2 * limit // _MIB} MiB."
        " Delete services, enlarge the storage, or drop tables after SET default_transaction_read_only = off,"
        " whose room comes back when no snapshot of the restore window holds them."
    )


def temp_file_mbs(total_bytes: int) -> int:
    """Return how much of the storage the temporary files of one process may take, in MiB, when nothing else is set."""
    return min(max(total_bytes // _SHARE // _MIB, _LEAST_TEMP_FILE_MBS), _MOST_TEMP_FILE_MBS)


def hold(paths: ServicePaths, account: Account) -> None:
    """Make new transactions read-only, and end the sessions whose older ones write. May run again."""
    if not paths.hold_file.exists():
        account.write(paths.hold_file, _SETTINGS, durable=False)
        processes.reload(paths)
    since = datetime.fromtimestamp(paths.hold_file.stat().st_mtime, UTC)
    with sql.connect(paths) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND usename IS DISTINCT FROM %s AND backend_xid IS NOT NULL AND xact_start < %s",
            (sql.PLATFORM_ROLE, since),
        )


def lift(paths: ServicePaths) -> None:
    """Let sessions write again. May run again."""
    if paths.hold_file.exists():
        paths.hold_file.unlink()
        processes.reload(paths)
