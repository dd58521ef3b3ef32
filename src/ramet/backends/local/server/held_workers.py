"""Keep a standby's workers off from before its promotion until it is neutralized, at every start in between.

PostgreSQL reads how many workers of subscriptions there may be at a start only, and begins them when recovery ends.
"""

from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.standby import source_directory
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value

_ARE_OFF = "SELECT source = 'command line' FROM pg_show_all_settings() WHERE name = 'max_logical_replication_workers'"


def hold(paths: ServicePaths) -> None:
    """Let each start from now on have the settings of a fork's first start. May run again."""
    files.write(_note(paths), durable=True)


def release(paths: ServicePaths) -> None:
    """Let the next start have workers. May run again."""
    note = _note(paths)
    if note.exists():
        note.unlink()
        files.flush(note.parent)


def are_held(paths: ServicePaths) -> bool:
    """Tell whether the next start of the server has no workers."""
    return _note(paths).exists()


def are_off(paths: ServicePaths) -> bool:
    """Tell whether the server was started without workers. Raises Unavailable when it does not accept connections."""
    with connections.connect(paths) as connection:
        return bool(value(connection, _ARE_OFF))


def _note(paths: ServicePaths) -> Path:
    return source_directory(paths) / "workers-held"
