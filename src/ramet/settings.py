"""The settings of this process: defaults, then RAMET_* variables, then options. Nothing here inspects the host."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from ramet.errors import Failed, Invalid
from ramet.setting_kinds import (
    ARCHIVE,
    BACKEND,
    CERTIFICATE,
    CLASS,
    DATABASE,
    DIRECTORY,
    DRIVER,
    EGRESS,
    EXTENSIONS,
    FILE,
    HOST_NAME,
    HOSTS,
    HTTP_URL,
    IMAGE,
    LEVEL,
    MAJORS,
    NAMESPACE,
    NETWORKS,
    POOLER_IMAGE,
    PORT_RANGE,
    REGION,
    SWITCH,
    Kind,
    choice,
    number,
)

_VARIABLES = {"has_limits": "RAMET_LIMITS"}


@dataclass(frozen=True)
class Settings:
    """Everything that can be set: its type, how it is written, its meaning, and its default."""

    data_dir: Annotated[Path, DIRECTORY, "data directory; back this up, and copy its files only after 'ramet down'"]
    host: Annotated[str, HOST_NAME, "address that HTTP listens on"] = "127.0.0.1"
    port: Annotated[int, number(0, 65535), "port of HTTP; 0 picks a free one"] = 8080
    http_connections: Annotated[int, number(10, 1_000_000), "largest number of open HTTP connections"] = 2000
    http_connections_per_address: Annotated[
        int, number(10, 1_000_000), "largest number of HTTP connections from one address that wait for their client"
    ] = 1000
    tls_cert: Annotated[
        str,
        CERTIFICATE,
        "certificate of HTTP: a PEM file, or auto for one of the authority that the certificates of services are of",
    ] = ""
    tls_key: Annotated[Path | None, FILE, "key of that certificate, a PEM file; not with auto"] = None
    probe_port: Annotated[
        int | None, number(1, 65535), "port of /livez, /readyz and /metrics of 'ramet worker'; by default none"
    ] = None
    metrics_token_file: Annotated[
        Path | None, FILE, "file with the token that /metrics shows everything to; by default nobody has one"
    ] = None
    traces_url: Annotated[
        str,
        HTTP_URL,
        "receiver of OpenTelemetry's traces, such as http://host:4318/v1/traces; by default none",
    ] = ""
    metrics_loopback: Annotated[
        bool,
        SWITCH,
        "on: programs on this host read all of /metrics without credentials; leave it off behind a proxy on this host",
    ] = False
    endpoint_host: Annotated[str, HOST_NAME, "host in the endpoints of services"] = "localhost"
    plaintext_endpoints: Annotated[
        bool,
        SWITCH,
        "on: create services without TLS where PostgreSQL has none, with endpoints that only this host reaches",
    ] = False
    port_range: Annotated[range, PORT_RANGE, "ports for services"] = range(15432, 16432)
    region_code: Annotated[str, REGION, "region that services report"] = "local"
    database_url: Annotated[str, DATABASE, "the store; by default a SQLite file in the data directory"] = ""
    storage_driver: Annotated[
        str, DRIVER, "how a new data directory copies files for forks: auto, reflink, btrfs or copy"
    ] = "auto"
    image_gbs: Annotated[
        int | None, number(1, 1_000_000), "size in GiB of a new storage image; by default half of the free space"
    ] = None
    has_limits: Annotated[bool, SWITCH, "on or off: limit servers to their CPU and memory"] = True
    temp_file_mbs: Annotated[
        int | None,
        number(1, 2_000_000),
        "limit in MiB of the temporary files of each server process; by default 5% of the storage, 64 to 65536",
    ] = None
    memory_reserve_percent: Annotated[
        int,
        number(0, 90),
        "share of the host's memory that stays free: a server that would need it is not started",
    ] = 5
    memory_commit_percent: Annotated[
        int,
        number(10, 10_000),
        "memory that the running servers may come to need, in percent of the host's: one that is over it is refused",
    ] = 150
    service_quota_gbs: Annotated[
        int | None,
        number(1, 1_000_000),
        "limit in GiB of the storage of each service, where the file system has quotas; by default none",
    ] = None
    background_jobs: Annotated[
        int | None,
        number(1, 256),
        "largest number of ANALYZE runs and data checks at a time; by default the number of CPUs",
    ] = None
    archive_url: Annotated[
        str, ARCHIVE, "off-host archive: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///path"
    ] = ""
    archive_key_file: Annotated[
        Path | None,
        FILE,
        "file with the recovery key of the archive; by default Ramet makes one in the data directory",
    ] = None
    archive_days: Annotated[int, number(1, 3650), "days for which the off-host archive can restore services"] = 30
    archive_check_mbs: Annotated[
        int, number(0, 1_000_000), "MiB that are read back from the off-host archive each hour, to verify it"
    ] = 64
    source_archives: Annotated[
        Path | None,
        DIRECTORY,
        "directory whose subdirectories have the archived WAL of servers that services follow; by default none",
    ] = None
    standby_sources: Annotated[
        tuple[str, ...] | None,
        HOSTS,
        "hosts that services may follow as a standby: their superusers can run programs on this one; by default any",
    ] = None
    worker_threads: Annotated[int, number(1, 256), "largest number of operations that run at a time"] = 8
    snapshot_seconds: Annotated[
        int | None,
        number(1, 604800),
        "seconds until the next snapshot of a service; by default 600, with the storage driver copy 86400",
    ] = None
    snapshot_wal_mbs: Annotated[
        int,
        number(1, 1_000_000),
        "MiB of WAL until the next snapshot, if sooner; with the storage driver copy at least as much as the data",
    ] = 128
    fork_rest_seconds: Annotated[
        int, number(0, 3600), "seconds before background jobs such as ANALYZE start on a new fork"
    ] = 10
    automatic_warm_forks: Annotated[
        int | None,
        number(0, 20),
        "largest number of forks that are kept ready for a service that is forked often; by default 20, and 0 on"
        " Kubernetes and with the storage driver copy",
    ] = None
    window_days: Annotated[int, number(1, 3650), "length of the restore window in days"] = 7
    history_days: Annotated[
        int,
        number(1, 3650),
        "days for which finished operations can be read; snapshots on schedule that succeeded are kept for one day",
    ] = 30
    event_days: Annotated[int, number(1, 3650), "days for which events and their deliveries can be read"] = 30
    webhook_private_targets: Annotated[
        tuple[str, ...],
        NETWORKS,
        "private addresses or networks that webhooks may reach, with commas between them; by default none",
    ] = ()
    audit_days: Annotated[int, number(1, 36500), "days for which entries of the audit are kept"] = 400
    trusted_proxies: Annotated[
        tuple[str, ...],
        NETWORKS,
        "proxies whose X-Forwarded-For and -Proto headers are believed: addresses or networks with commas between them",
    ] = ()
    backend: Annotated[str, BACKEND, "where servers run: local (this host) or kubernetes"] = "local"
    kubeconfig: Annotated[
        Path | None,
        FILE,
        "kubeconfig file of the cluster; by default that of KUBECONFIG, or the cluster that Ramet itself runs in",
    ] = None
    kubernetes_namespace: Annotated[
        str,
        NAMESPACE,
        "namespace of the services on Kubernetes; with {project}, such as ramet-{project}, one for each project",
    ] = "ramet"
    kubernetes_image: Annotated[str, IMAGE, "image of PostgreSQL on Kubernetes, with {major} for its version"] = (
        "ghcr.io/cloudnative-pg/postgresql:{major}"
    )
    kubernetes_majors: Annotated[
        tuple[int, ...], MAJORS, "versions of PostgreSQL that these images have; new services get the first one"
    ] = (18, 17, 16, 15)
    kubernetes_pooler_image: Annotated[str, POOLER_IMAGE, "image of PgBouncer on Kubernetes, 1.21 or later"] = (
        "ghcr.io/cloudnative-pg/pgbouncer:1.25.1"
    )
    kubernetes_extensions: Annotated[
        tuple[str, ...], EXTENSIONS, "extensions that these images have beside PostgreSQL's own"
    ] = ()
    kubernetes_storage_class: Annotated[
        str, CLASS, "storage class of volumes on Kubernetes; by default the cluster's default"
    ] = ""
    kubernetes_snapshot_class: Annotated[
        str, CLASS, "snapshot class of volumes on Kubernetes; by default the cluster's default"
    ] = ""
    kubernetes_volume_gbs: Annotated[int, number(1, 65536), "size in GiB of a new volume on Kubernetes"] = 10
    kubernetes_fork_egress: Annotated[
        str,
        EGRESS,
        "what DEV forks on Kubernetes may connect to: allow, deny (only without an archive), or networks such as"
        " 10.0.0.0/8,192.0.2.1/32",
    ] = "allow"
    kubernetes_forks: Annotated[
        str,
        choice("adopt", "recover", "copy"),
        "how forks begin on Kubernetes: adopt (the operator takes over a volume that Ramet makes of a snapshot),"
        " recover (a job of the operator makes it: also with other releases than Ramet was made for) or"
        " copy (all data is copied by pg_basebackup: for storage that takes no snapshots)",
    ] = "adopt"
    kubernetes_endpoints: Annotated[
        str,
        choice("cluster", "nodeport", "loadbalancer"),
        "how clients reach services on Kubernetes: cluster (from inside), nodeport or loadbalancer",
    ] = "cluster"
    log_level: Annotated[str, LEVEL, "lowest log level: DEBUG, INFO, WARNING or ERROR"] = "INFO"

    def store_url(self) -> str:
        """Return the store's address: the one that was set, else a file in the data directory."""
        path = str(self.data_dir.absolute()).replace("%", "%25").replace("?", "%3F")
        return self.database_url or f"sqlite:///{path}/ramet.db"

    def __repr__(self) -> str:
        # A database URL may hold a password.
        return f"Settings(data_dir={str(self.data_dir)!r}, …)"


class Described(NamedTuple):
    """A setting for help and documentation."""

    variable: str
    default: str
    meaning: str


def load_settings(environ: Mapping[str, str] = os.environ, /, **options: object) -> Settings:
    """Return the settings of this process; an option that is None was not given. Raises Invalid."""
    values: dict[str, Any] = {}
    for name, (kind, _) in _annotations().items():
        option, variable = options.pop(name, None), _variable(name)
        if option is not None:
            values[name] = _read("--data" if name == "data_dir" else f"--{name.replace('_', '-')}", str(option), kind)
        elif environ.get(variable):
            values[name] = _read(variable, environ[variable], kind)
    if options:
        raise AssertionError(f"BUG: no settings {sorted(options)}")
    if "data_dir" not in values:
        values["data_dir"] = default_data_dir(environ)
    return Settings(**values)


def describe_settings() -> dict[str, Described]:
    """Return all settings by their names."""
    defaults = {one.name: _shown(one.default) for one in fields(Settings)}
    defaults["data_dir"] = "/var/lib/ramet, or ~/.local/share/ramet for ordinary users"
    return {name: Described(_variable(name), defaults[name], meaning) for name, (_, meaning) in _annotations().items()}


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default data directory: the system's place for root, the user's otherwise. Raises Invalid."""
    if os.geteuid() == 0:
        return Path("/var/lib/ramet")
    base = environ.get("XDG_DATA_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else Path.home() / ".local/share") / "ramet"
    except RuntimeError as error:
        message = f"The user with the number {os.geteuid()} has no home directory for the data directory"
        raise Invalid("NO_HOME", message, "Name one with --data or RAMET_DATA_DIR.") from error


def _annotations() -> dict[str, tuple[Kind, str]]:
    return {name: hint.__metadata__ for name, hint in get_type_hints(Settings, include_extras=True).items()}


def _variable(name: str) -> str:
    return _VARIABLES.get(name, f"RAMET_{name.upper()}")


def _read(source: str, text: str, kind: Kind) -> Any:
    try:
        return kind.read(text)
    except (ValueError, KeyError, OSError, RuntimeError) as error:  # RuntimeError: ~NAME of a user who does not exist
        shown = "***" if kind is DATABASE else repr(text[:80])
        raise Invalid("INVALID_SETTING", f"{source} must be {kind.wanted} (got {shown})") from error


def _shown(value: object) -> str:
    match value:
        case range():
            return f"{value.start}-{value.stop - 1}"
        case bool():
            return "on" if value else "off"
        case None:
            return ""
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def make_data_dir(directory: Path) -> None:
    """Make the data directory. As root, the system user of the servers can enter it; no other user can list it.

    Raises Failed where that cannot be.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if directory.stat().st_uid == os.geteuid():
            directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
    except PermissionError:
        raise
    except OSError as error:
        message = f"The data directory {directory} cannot be made: {error.strerror}"
        raise Failed("DATA_DIR_NOT_MADE", message, "Name another one with --data or RAMET_DATA_DIR.") from error
