"""How this process was told to run: defaults, then RAMET_* variables, then arguments. The host is not looked at."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ramet.errors import Invalid

_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})")
_DRIVERS = ("auto", "reflink", "btrfs", "copy")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_DATABASES = ("sqlite:///", "postgresql+psycopg://")


@dataclass(frozen=True)
class Settings:
    """What can be set. Each field has the variable that `VARIABLES` names."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8080
    http_connections: int = 2000
    http_connections_per_address: int = 1000
    endpoint_host: str = "localhost"
    plaintext_endpoints: bool = False
    port_range: range = range(15432, 16432)
    region_code: str = "local"
    database_url: str = ""
    storage_driver: str = "auto"
    image_gbs: int | None = None
    has_limits: bool = True
    temp_file_mbs: int | None = None
    background_jobs: int | None = None
    service_quota_gbs: int | None = None
    worker_threads: int = 8
    snapshot_seconds: int = 600
    snapshot_wal_mbs: int = 128
    fork_rest_seconds: int = 10
    window_days: int = 7
    history_days: int = 30
    log_level: str = "INFO"

    def store_url(self) -> str:
        """Return the store's address: the one that was set, else a file in the data directory."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute()}/ramet.db"

    def __repr__(self) -> str:
        # A database URL may hold a password.
        return f"Settings(data_dir={str(self.data_dir)!r}, …)"


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"it must be one of {', '.join(allowed)}")
        return text

    return parse


def _number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and lowest <= int(text) <= highest):
            raise ValueError(f"it must be a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def _matching(pattern: re.Pattern[str], wanted: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError(f"it must be {wanted}")
        return text

    return parse


def _host(text: str) -> str:
    """Return a host name, or an address without the brackets that IPv6 has in URLs."""
    bare = text.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return _matching(_HOST, "a host name or an address")(text)


def _directory(text: str) -> Path:
    path = Path(text).expanduser()
    if not text or "\0" in text or (path.exists() and not path.is_dir()):
        raise ValueError("it must name a directory, which is made when it is missing")
    return path.absolute()


def _ports(text: str) -> range:
    found = _PORTS.fullmatch(text)
    if found is None or not 1024 <= int(found[1]) <= int(found[2]) <= 65535:
        raise ValueError("it must be two ports from 1024 to 65535, for example 15432-16431")
    return range(int(found[1]), int(found[2]) + 1)


def _switch(text: str) -> bool:
    return _choice("on", "off")(text) == "on"


def _database(text: str) -> str:
    if text and not text.startswith(_DATABASES):
        raise ValueError("it must begin with " + " or ".join(_DATABASES))
    return text


def _level(text: str) -> str:
    return _choice(*_LEVELS)(text.upper())


_Rule = tuple[str, Callable[[str], Any], str]

RULES: Mapping[str, _Rule] = {
    "data_dir": ("RAMET_DATA_DIR", _directory, "where everything lies; make backups of it"),
    "host": ("RAMET_HOST", _host, "the address that HTTP listens on"),
    "port": ("RAMET_PORT", _number(0, 65535), "the port of HTTP; 0 picks a free one"),
    "http_connections": (
        "RAMET_HTTP_CONNECTIONS",
        _number(10, 1_000_000),
        "how many connections HTTP keeps in all",
    ),
    "http_connections_per_address": (
        "RAMET_HTTP_CONNECTIONS_PER_ADDRESS",
        _number(10, 1_000_000),
        "and how many of one address that wait for their client",
    ),
    "endpoint_host": (
        "RAMET_ENDPOINT_HOST",
        _host,
        "the host that clients of services are told to connect to",
    ),
    "plaintext_endpoints": (
        "RAMET_PLAINTEXT_ENDPOINTS",
        _switch,
        "on: services are created also where PostgreSQL has no TLS, with endpoints for this host alone",
    ),
    "port_range": ("RAMET_PORT_RANGE", _ports, "the ports for services"),
    "region_code": (
        "RAMET_REGION_CODE",
        _matching(_REGION, "lower-case letters, digits and hyphens"),
        "the region that services report",
    ),
    "database_url": ("RAMET_DATABASE_URL", _database, "the store; a SQLite file in the data directory by default"),
    "storage_driver": (
        "RAMET_STORAGE_DRIVER",
        _choice(*_DRIVERS),
        "how forks get their files: " + ", ".join(_DRIVERS),
    ),
    "image_gbs": ("RAMET_IMAGE_GBS", _number(1, 1_000_000), "size of a new storage image; half of the free space"),
    "has_limits": ("RAMET_LIMITS", _switch, "on or off: hold servers to their cpu and memory"),
    "temp_file_mbs": (
        "RAMET_TEMP_FILE_MBS",
        _number(1, 2_000_000),
        "room in MiB for the temporary files of each server process; a twentieth of the storage, 64 to 65536",
    ),
    "service_quota_gbs": (
        "RAMET_SERVICE_QUOTA_GBS",
        _number(1, 1_000_000),
        "how much of the storage one service may take, where its file system has quotas; all by default",
    ),
    "background_jobs": (
        "RAMET_BACKGROUND_JOBS",
        _number(1, 256),
        "how many ANALYZE runs and checks of data are at work at once; as many as there are CPUs",
    ),
    "worker_threads": ("RAMET_WORKER_THREADS", _number(1, 256), "how many operations run at once"),
    "snapshot_seconds": ("RAMET_SNAPSHOT_SECONDS", _number(1, 604800), "a snapshot is due after so long"),
    "snapshot_wal_mbs": ("RAMET_SNAPSHOT_WAL_MBS", _number(1, 1_000_000), "or after so much WAL in MiB"),
    "fork_rest_seconds": (
        "RAMET_FORK_REST_SECONDS",
        _number(0, 3600),
        "how long a new fork is left alone by ANALYZE and the like",
    ),
    "window_days": ("RAMET_WINDOW_DAYS", _number(1, 3650), "how far back PITR reaches"),
    "history_days": ("RAMET_HISTORY_DAYS", _number(1, 3650), "how long operations that are over can be read"),
    "log_level": ("RAMET_LOG_LEVEL", _level, "DEBUG, INFO, WARNING or ERROR"),
}


def load_settings(environ: Mapping[str, str] = os.environ, /, **arguments: object) -> Settings:
    """Return the settings of this process; an argument that is None was not given. Raises Invalid."""
    values: dict[str, Any] = {"data_dir": default_data_dir(environ)}
    for name, (variable, parse, _) in RULES.items():
        argument = arguments.pop(name, None)
        if argument is not None:
            values[name] = _parsed(_option(name), str(argument), parse)
        elif environ.get(variable):
            values[name] = _parsed(variable, environ[variable], parse)
    if arguments:
        raise AssertionError(f"BUG: no settings {sorted(arguments)}")
    return Settings(**values)


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the data lies unless something else is said: the system's place for root, the user's otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/ramet")
    base = environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local/share") / "ramet"


def table_of_settings() -> list[tuple[str, str, str]]:
    """Return (variable, default, meaning) of each setting, for help and documentation."""
    defaults = {field.name: field.default for field in fields(Settings)}
    defaults["data_dir"] = "/var/lib/ramet, or ~/.local/share/ramet for ordinary users"
    return [(variable, _shown(defaults[name]), meaning) for name, (variable, _, meaning) in RULES.items()]


def _shown(value: object) -> str:
    match value:
        case range():
            return f"{value.start}-{value.stop - 1}"
        case bool():
            return "on" if value else "off"
        case None:
            return ""
        case _:
            return str(value)


def _option(name: str) -> str:
    return "--data" if name == "data_dir" else f"--{name.replace('_', '-')}"


def _parsed(source: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        shown = "***" if source == "RAMET_DATABASE_URL" else repr(text[:80])
        raise Invalid("INVALID_SETTING", f"{source} is {shown}, which cannot be used: {error}") from error


def make_data_dir(directory: Path) -> None:
    """Make the data directory. As root, the servers' own user passes through it; nobody else lists it."""
    directory.mkdir(parents=True, exist_ok=True)
    if directory.stat().st_uid == os.geteuid():
        directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
