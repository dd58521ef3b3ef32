"""The loadable module that enforces read-only sessions: building it, and installing it for a service.

It is optional. Each service has its own copy in its configuration directory, so that no session fails when the built
module is removed. The source is native/ramet_read_only.c; docs/read-only.md describes the rules without the module.

`python -m ramet.backends.local.server.read_only_module` builds it for each PostgreSQL found here.
"""

import hashlib
import logging
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.sql import connections
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation, Installations, find_installations
from ramet.machine.programs import complete, run

_SOURCE = Path(__file__).parent / "native" / "ramet_read_only.c"
_HOME = Path(sys.prefix) / "lib" / "ramet"
_NAME = "ramet_read_only.so"
_COMPILE_SECONDS = 120
# Errors, and classes of them, that a server can have with any module: no resources, a lock, a statement that was
# canceled, a file that the disk cannot read.
_OF_ONE_SERVER = ("53", "55", "57", "58030")
_log = logging.getLogger(__name__)


def library_of(major: int) -> Path:
    """Return the path of the built module for a major version."""
    return _HOME / str(major) / _NAME


def build(installation: Installation) -> bool:
    """Build the module for an installation; False when it is up to date.

    Raises Failed, naming what is missing.
    """
    target = library_of(installation.major)
    if target.exists() and target.stat().st_mtime >= _SOURCE.stat().st_mtime:
        return False
    compile_library(installation, _SOURCE, target)
    return True


def compile_library(installation: Installation, source: Path, target: Path) -> None:
    """Compile a library that the server of an installation can load. Raises Failed, naming what is missing."""
    partial = target.with_suffix(".partial")
    command = [_compiler(), "-O2", "-fPIC", "-shared", "-Wall", "-Werror=implicit-function-declaration",
               f"-I{_headers(installation)}", "-o", str(partial), str(source)]  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    done = complete(command, timeout_seconds=_COMPILE_SECONDS)
    if done.returncode != 0:
        raise Failed("MODULE_NOT_BUILT", f"{' '.join(command)} failed: {done.returncode}", done.stderr[-2000:])
    partial.chmod(0o644)
    partial.replace(target)


@dataclass(frozen=True)
class Modules:
    """The modules that servers load, without builds that a server could not load: those would end every login."""

    _is_loadable: dict[tuple[int, bytes], bool] = field(default_factory=dict)

    def provide(self, paths: ServicePaths, major: int) -> Path | None:
        """Copy the module to a service's configuration; return its path there, None when there is no usable module.

        A server that accepts connections loads each build once, as a test.
        """
        module = _copy(paths, major)
        if module is None:
            return None
        build = (major, hashlib.sha256(module.read_bytes()).digest())
        if build not in self._is_loadable and postgres.is_ready(paths):
            is_loadable = _try_to_load(paths, module)
            if is_loadable is None:
                return module
            self._is_loadable[build] = is_loadable
        return module if self._is_loadable.get(build, True) else None


def _try_to_load(paths: ServicePaths, module: Path) -> bool | None:
    """Load the module in a session of the platform, which otherwise never does; None if this server cannot say."""
    with suppress(Unavailable, psycopg.Error), connections.connect(paths) as connection:
        return _is_loaded(connection, module)
    return None


def _is_loaded(connection: connections.Connection, module: Path) -> bool | None:
    try:
        connection.execute(psycopg.sql.SQL("LOAD {}").format(str(module)))
    except psycopg.Error as error:
        if error.sqlstate is None or error.sqlstate.startswith(_OF_ONE_SERVER):
            return None
        _log.warning("services run without the module for read-only sessions, which cannot be loaded: %s", error)
        return False
    return True


def _copy(paths: ServicePaths, major: int) -> Path | None:
    copy, built = paths.conf / _NAME, library_of(major)
    if built.exists():
        content = built.read_bytes()
        if not copy.exists() or copy.read_bytes() != content:
            files.write(copy, content)
    is_loadable = copy.exists() and not os.statvfs(copy).f_flag & os.ST_NOEXEC
    return copy if is_loadable else None


def describe(installations: Installations) -> str:
    """Say in a sentence for which versions the module is built, and how to build it for the others."""
    having = [str(major) for major in installations.by_major if library_of(major).exists()]
    lacking = [str(major) for major in installations.by_major if not library_of(major).exists()]
    description = f"Read-only sessions of PostgreSQL {', '.join(having)} are enforced by the module. " if having else ""
    if lacking:
        description += (
            f"The module is not built for PostgreSQL {', '.join(lacking)}; see docs/read-only.md."
            f" To build it: {Path(sys.executable)} -m {__spec__.name}, with a C compiler and the server's headers"
            f" (Debian: postgresql-server-dev-{lacking[0]})."
        )
    return description.strip()


def _compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise Failed("NO_COMPILER", "no C compiler (cc, gcc, clang) is on PATH", "Debian: apt-get install gcc libc6-dev")


def _headers(installation: Installation) -> Path:
    """Return the directory of the server's headers: the installation's, or those that script/setup fetched."""
    command = [installation.program("pg_config"), "--includedir-server"]
    reported = run(command).strip()
    fetched = _HOME / "headers" / str(installation.major) / "server"
    for place in (Path(reported), fetched):
        if (place / "postgres.h").exists():
            return place
    raise Failed(
        "NO_HEADERS",
        f"{reported} does not contain the headers of the PostgreSQL {installation.major} server",
        f"Debian: apt-get install postgresql-server-dev-{installation.major}",
    )


def main() -> None:
    """Build the module for each PostgreSQL of this host, and say for which that was not possible."""
    for installation in find_installations().by_major.values():
        try:
            if build(installation):
                print(f"the module for read-only sessions of PostgreSQL {installation.major} is built")
        except Failed as error:
            print(f"no module for read-only sessions of PostgreSQL {installation.major}: {error.message}")


if __name__ == "__main__":
    main()
