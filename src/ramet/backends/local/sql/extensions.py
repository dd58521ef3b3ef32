"""Update extensions as the platform, and record which libraries earlier states of the data need.

The admin does not own extensions that the platform created. When a package has removed the old library, any session
that uses the extension fails. So the update is the first statement of its session, as TimescaleDB requires.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg

from ramet.backends.interface.values import ExtensionUpdate
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.raw_names import shown
from ramet.errors import Invalid, Unavailable
from ramet.machine.installation import Installation
from ramet.model.timestamps import rfc3339

_RECORD = "extensions.json"
_LOCK = "extensions.lock"
_UPDATE_LIMIT = timedelta(minutes=10)
_OUTDATED = """
SELECT e.extname, e.extversion, a.default_version,
       EXISTS (SELECT FROM pg_extension_update_paths(e.extname) p
               WHERE p.source = e.extversion AND p.target = a.default_version AND p.path IS NOT NULL),
       ARRAY(SELECT DISTINCT p.probin FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
             WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.classid = 'pg_proc'::regclass
               AND d.deptype = 'e' AND p.probin IS NOT NULL)
FROM pg_extension e JOIN pg_available_extensions a ON a.name = e.extname
WHERE e.extversion <> a.default_version ORDER BY e.oid
"""


class _Updated(msgspec.Struct, frozen=True):
    """An update, and the libraries that earlier states of the data need."""

    at: datetime
    extension: str
    version: str
    libraries: list[str]


def update(paths: ServicePaths, wanted: str | None) -> list[ExtensionUpdate] | None:
    """Update one extension, or all, to the installed version in every database; return all attempts.

    None when no database has the wanted one. Raises Unavailable while another call updates extensions of the same
    server.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(paths.sockets / _LOCK, timeout_seconds=0))
        except (TimeoutError, FileNotFoundError) as error:
            raise _not_now(paths, error) from error
        with connections.connect(paths) as connection:
            databases = ["template1", *(each.name for each in connections.databases(connection) if each.is_open)]
        found = [_update_in(paths, database, wanted) for database in databases]
    known = [made for made in found if made is not None]
    return [one for made in known for one in made] if known else None


def _not_now(paths: ServicePaths, error: Exception) -> Unavailable:
    if isinstance(error, FileNotFoundError):
        return Unavailable("SERVER_UNREACHABLE", f"The server of service {paths.service_id} is not running")
    return Unavailable(
        "EXTENSIONS_UPDATING",
        f"Another request is updating extensions of service {paths.service_id}",
        "Wait until it has ended, then try again.",
    )


def _update_in(paths: ServicePaths, database: str, wanted: str | None) -> list[ExtensionUpdate] | None:
    """Update extensions in a database; None when it does not have the wanted one."""
    with connections.connect(paths, database) as connection:
        installed = [name for (name,) in connection.execute("SELECT extname FROM pg_extension")]
        if wanted not in (None, *installed):
            return None
        outdated = [row for row in connection.execute(_OUTDATED) if wanted in (None, row[0])]
    made = []
    for name, old, new, has_path, libraries in outdated:
        problem = f"it has no update from {old} to {new}: install a version between" if not has_path else None
        if problem is None:
            # Recorded before the update, with its latest end, because this process may be killed after the update.
            known, latest = _remembered(paths.root / _RECORD), datetime.now(UTC) + _UPDATE_LIMIT
            _remember(paths, [*known, _Updated(latest, name, old, libraries)])
            problem = _update_one(paths, database, name)
            done = [_Updated(datetime.now(UTC), name, old, libraries)] if problem is None else []
            _remember(paths, [*known, *done])
        made.append(ExtensionUpdate(shown(database), name, old, new, problem))
    return made


def _update_one(paths: ServicePaths, database: str, name: str) -> str | None:
    """Update an extension; return why that failed."""
    try:
        with connections.connect(
            paths, database, statement_timeout=f"{_UPDATE_LIMIT.seconds}s", **connections.EXTENSIONS_LOADED
        ) as connection:
            connections.run(connection, "ALTER EXTENSION {} UPDATE", name)
    except psycopg.Error as error:
        return error.diag.message_primary or str(error)
    return None


def check_past(paths: ServicePaths, installation: Installation, time: datetime) -> None:
    """Raise Invalid when the state at `time` needs a library that is not installed any more."""
    for made in _remembered(paths.root / _RECORD):
        missing = [name for name in made.libraries if time <= made.at and not _is_there(installation, name)]
        if missing:
            raise Invalid(
                "EXTENSION_VERSION_MISSING",
                f"The data of {rfc3339(time)} uses {made.extension} {made.version}, whose library is not installed"
                f" ({', '.join(missing)})",
                f"Install that version, or choose a target_time after {rfc3339(made.at)}, when it was updated.",
            )


def _is_there(installation: Installation, library: str) -> bool:
    name = library.removeprefix("$libdir/").removesuffix(".so")
    return Path(f"{name}.so").is_file() if name.startswith("/") else installation.has_library(name)


def _remember(paths: ServicePaths, made: Sequence[_Updated]) -> None:
    files.write(paths.root / _RECORD, msgspec.json.encode(made), durable=True)


def _remembered(place: Path) -> list[_Updated]:
    found = files.read(place)
    return msgspec.json.decode(found, type=list[_Updated]) if found else []
