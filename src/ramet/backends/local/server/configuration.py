"""The configuration of a server, as a pure function of the service and its paths; `access.py` says who may connect.

Settings for one run only (recovery, the first start of a fork) are passed on the command line; see `first_boot`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.parameters import with_own
from ramet.backends.local.server.standby import following, following_source
from ramet.model.environment import Environment
from ramet.model.upstream import MOST_ORIGINS
from ramet.model.wal_level import WalLevel

DEFAULT_TEMP_FILE_MBS = 1024
DEFAULT_SLOT_WAL_MBS = 4096
_MB_PER_GB = 1024
_MOST_CONNECTIONS = 500
_MOST_CORES = 64
_MODULES = "session_preload_libraries"
_HAS_WORKERS = "timescaledb"
_TIMESCALEDB_JOBS = 16
# The number of databases is rounded up, so that few new databases require a restart.
_DATABASES_AT_ONCE = 16
_MOST_DATABASES = 64
MAX_PREPARED, USUAL_PREPARED = "max_prepared_transactions", 100
_ORIGINS_SINCE = 18  # has a limit of their own
_FEW_ORIGINS = 4  # the usual limit is 10 or more; after a crash WAL may have the progress of others, too
_DEV_SHARED_BUFFERS_MB = 256
_SHARED_SIZE_BUFFERS_MB = 32
_SMALL_CPU_MILLIS = 2000
_LOOPBACK = "localhost"
# The port is part of the socket's name, even for a server without an endpoint.
_SOCKET_NAME = 5432
_OPENED = re.compile(r"^(ssl|autovacuum|cron\.launch_active_jobs) = 'on'$", re.MULTILINE)


class Phase(StrEnum):
    """Whether clients may connect. While it is loading, this host's own users may log in as the admin."""

    CLOSED = "closed"
    LOADING = "loading"
    OPEN = "open"


@dataclass(frozen=True)
class Features:
    """The capabilities of the installation and the host that the configuration depends on.

    `at_least` are the settings that a standby must not have lower than its source. That of prepared transactions stays
    after its promotion and in forks: all that were prepared are there at each start. So is the progress of as many
    replication `origins`. `superusers` are the source's, as
    long as its copy has them: the platform logs in as the first one, and no client as any of them.
    """

    has_tls: bool
    preload: tuple[str, ...] = ()
    copy_on_write: bool = True
    temp_file_mbs: int = DEFAULT_TEMP_FILE_MBS
    databases: int = 1
    read_only_module: Path | None = None
    slot_wal_mbs: int = DEFAULT_SLOT_WAL_MBS
    at_least: Mapping[str, int] = field(default_factory=dict)
    origins: int = 0
    superusers: Sequence[str] = ()
    source_archives: Path | None = None
    explains: bool = True
    wal_compression: str = "pglz"


def postgresql_conf(server: Server, paths: ServicePaths, features: Features, phase: Phase) -> str:
    """Return the main configuration file."""
    groups = {
        "Where": _where(server, paths, features),
        "Size": _size(server, features),
        "WAL and archive": _wal(server, paths, features),
        "TLS and passwords": _security(server, paths, features, phase),
        "Recovery": _recovery(),
        "Log": _log(paths),
        "Behaviour": _behaviour(server, features, phase),
    }
    groups = with_own(groups, server, explains=features.explains)
    if server.primary is not None:
        groups["Following"] = following(server.primary, paths)
    if server.upstream is not None:
        merged = {name: value for group in groups.values() for name, value in group.items()}
        groups["Following"] = following_source(server.upstream, paths, features.source_archives) | {
            name: str(max(int(merged.get(name, 0)), least)) for name, least in features.at_least.items()
        }
        for group in (group for title, group in groups.items() if title != "Following"):
            for name in features.at_least:
                group.pop(name, None)
    lines = [f"# Written by Ramet for service {server.service_id}; overwritten at each start."]
    for title, settings in groups.items():
        lines += ["", f"# {title}", *(f"{name} = {_quoted(value)}" for name, value in settings.items())]
    # A directory, because `read_only_file` is often missing: each process would log a missing included file.
    lines += ["", f"include_dir = {_quoted(str(paths.sockets))}"]
    return "\n".join(lines) + "\n"


def closing(text: str) -> str:
    """Return the configuration of an open server changed to closed, without any other change.

    The server would log each setting that needs a restart at the reload.
    """
    return _OPENED.sub(r"\1 = 'off'", text)


def first_boot() -> Mapping[str, str]:
    """Return the settings that keep a fork's first start from affecting other systems (docs/hazards.md, 19 and 20).

    PostgreSQL accepts settings of extensions that are not installed.
    """
    return {
        "max_logical_replication_workers": "0",
        "timescaledb.max_background_workers": "0",
    }


def boot_to_stop() -> Mapping[str, str]:
    """Return the settings of a start that only serves to stop cleanly; see `postgres.only_stops`.

    It may be that of a copy that is not secured, and a library may be missing that nothing but serving needs.
    """
    return {**first_boot(), "shared_preload_libraries": ""}


def _where(server: Server, paths: ServicePaths, features: Features) -> dict[str, str]:
    return {
        "cluster_name": server.service_id,
        "listen_addresses": _addresses(server, features),
        "port": str(server.listen_port or _SOCKET_NAME),
        "unix_socket_directories": str(paths.sockets),
        "unix_socket_permissions": "0700",
        "hba_file": str(paths.hba_file),
        "ident_file": str(paths.ident_file),
    }


def _addresses(server: Server, features: Features) -> str:
    if not server.port:
        return ""
    return _LOOPBACK if server.server_port else listen_addresses(server.host, features.has_tls)


def listen_addresses(host: str, has_tls: bool) -> str:
    """Return listen_addresses: loopback only when the endpoint's host is localhost, or it has no TLS."""
    if host == "::1":
        return "127.0.0.1, ::1"  # a host's localhost may lack IPv6
    if host in (_LOOPBACK, "127.0.0.1") or not has_tls:
        return _LOOPBACK
    return "*"


def _size(server: Server, features: Features) -> dict[str, str]:
    memory_mb = None if server.size.memory_gbs is None else server.size.memory_gbs * _MB_PER_GB
    connections = max_connections(server)
    cores = _cores(server)
    return {
        "max_connections": str(connections),
        "superuser_reserved_connections": "5",
        "shared_buffers": f"{_shared_buffers_mb(server)}MB",
        "effective_cache_size": f"{256 if memory_mb is None else memory_mb * 3 // 4}MB",
        "work_mem": f"{4 if memory_mb is None else max(4, memory_mb // 4 // connections)}MB",
        "maintenance_work_mem": f"{32 if memory_mb is None else min(2048, max(64, memory_mb // 16))}MB",
        **_workers(server, features),
        "max_parallel_workers": str(cores),
        "max_parallel_workers_per_gather": str(0 if cores == 1 else min(4, cores // 2)),
        "max_parallel_maintenance_workers": str(0 if cores == 1 else min(4, cores // 2)),
        **_locks(server, features),
        # For one process: no session can fill the storage by a sort. Only a superuser may raise it.
        "temp_file_limit": f"{features.temp_file_mbs}MB",
        # The same for every size: a fork with a lower limit than its parent has prepared transactions would not start.
        MAX_PREPARED: str(max(USUAL_PREPARED, features.at_least.get(MAX_PREPARED, 0))),
        "huge_pages": "off",
        "jit": "off" if _is_small(server) else "on",
        **_io(server),
    }


def _workers(server: Server, features: Features) -> dict[str, str]:
    """Return the limits of background workers: parallel queries, logical replication and TimescaleDB.

    TimescaleDB has a launcher, a scheduler in each database, and the running jobs. A replica must allow as many workers
    as its primary at any size and with any number of databases (PostgreSQL 18 docs, 26.4.3).
    """
    is_replica = server.primary is not None
    cores = _MOST_CORES if is_replica else min(_cores(server), _MOST_CORES)
    if not has_workers(features):
        return {"max_worker_processes": str(8 + 2 * cores)}
    databases = _MOST_DATABASES if is_replica else min(features.databases, _MOST_DATABASES)
    steps = max(1, math.ceil(databases / _DATABASES_AT_ONCE))
    timescaledb = _TIMESCALEDB_JOBS + steps * _DATABASES_AT_ONCE
    return {
        "max_worker_processes": str(8 + 2 * cores + 1 + timescaledb),
        "timescaledb.max_background_workers": str(timescaledb),
    }


def has_workers(features: Features) -> bool:
    """Tell whether a server runs scheduled jobs, which only a restart can switch on or off."""
    return _HAS_WORKERS in features.preload


def _cores(server: Server) -> int:
    return max(1, (server.size.cpu_millis or 0) // 1000)


def _locks(server: Server, features: Features) -> dict[str, str]:
    """Return the size of the lock table. PostgreSQL initializes that memory at each start, used or not.

    A shared service can hold as many locks in total as with PostgreSQL's defaults, because it allows as many prepared
    transactions as connections. A replica must allow as many as its primary (PostgreSQL 18 docs, 26.4.3).
    """
    if server.size.shared and server.primary is None and "timescaledb" not in features.preload:
        return {"max_locks_per_transaction": "32", "max_pred_locks_per_transaction": "32"}
    return {"max_locks_per_transaction": "128"}


def max_connections(server: Server) -> int:
    """Return max_connections: the service's own, or 100 for a shared server and up to 500 with more memory.

    A replica must allow as many as its primary at any size (PostgreSQL 18 docs, 26.4.3).
    """
    if server.primary is not None:
        return _MOST_CONNECTIONS
    usual = 100 if server.size.memory_gbs is None else min(_MOST_CONNECTIONS, max(100, server.size.memory_gbs * 25))
    return int(dict(server.parameters).get("max_connections", usual))


def _shared_buffers_mb(server: Server) -> int:
    if server.size.memory_gbs is None:
        return _SHARED_SIZE_BUFFERS_MB
    quarter = server.size.memory_gbs * _MB_PER_GB // 4
    return quarter if server.environment is Environment.PROD else min(quarter, _DEV_SHARED_BUFFERS_MB)


def _is_small(server: Server) -> bool:
    return server.size.cpu_millis is None or server.size.cpu_millis <= _SMALL_CPU_MILLIS


def _io(server: Server) -> dict[str, str]:
    return {"io_method": "sync"} if server.pg_major >= 18 and _is_small(server) else {}


def _wal(server: Server, paths: ServicePaths, features: Features) -> dict[str, str]:
    # On a copy-on-write file system recycled and zero-filled segments have only costs.
    recycle = "off" if features.copy_on_write else "on"
    return {
        "wal_level": server.wal_level.value,
        "wal_compression": features.wal_compression,
        **_wal_buffers(server),
        "wal_recycle": recycle,
        "wal_init_zero": recycle,
        "min_wal_size": "80MB",
        "max_wal_size": f"{_max_wal_gbs(server)}GB",
        "checkpoint_timeout": "5min",
        **_replication(server, features),
        # A slot that retains more loses its WAL, so a slot without a reader cannot fill the storage.
        "max_slot_wal_keep_size": f"{features.slot_wal_mbs}MB",
        "track_commit_timestamp": "on",
        "archive_mode": "on" if server.upstream is None else "always",
        "archive_library": "basic_archive",
        "basic_archive.archive_directory": str(paths.archive),
        "archive_timeout": "300s",
    }


def _wal_buffers(server: Server) -> dict[str, str]:
    """Return the size of the WAL buffers.

    The WAL writer fills all of them with zeros, also of an idle server. They must hold what a session writes while the
    WAL writer flushes, otherwise the session waits for the disk in spite of `synchronous_commit = off`.
    """
    return {"wal_buffers": "512kB"} if server.size.memory_gbs is None else {}


def _replication(server: Server, features: Features) -> dict[str, str]:
    """Return how many servers may read the WAL: up to four replicas, and with logical replication subscribers.

    A replica must allow as many senders as its primary (PostgreSQL 18 docs, 26.4.3).
    """
    most = 20 if server.primary is not None or server.wal_level is WalLevel.LOGICAL else 10
    found = {"max_wal_senders": str(most), "max_replication_slots": str(most)}
    if server.upstream is not None or features.origins > _FEW_ORIGINS:
        found |= for_origins(server.pg_major)
    return found


def for_origins(major: int) -> dict[str, str]:
    """Return the setting with which a server keeps the progress of MOST_ORIGINS replication origins.

    It does not start with that of more, and ends when WAL has that of one more. Before 18 the limit is that of slots.
    """
    name = "max_active_replication_origins" if major >= _ORIGINS_SINCE else "max_replication_slots"
    return {name: str(MOST_ORIGINS)}


def _max_wal_gbs(server: Server) -> int:
    if server.size.memory_gbs is None or server.environment is Environment.DEV:
        return 1
    return min(8, max(1, server.size.memory_gbs // 4))


def _security(server: Server, paths: ServicePaths, features: Features, phase: Phase) -> dict[str, str]:
    # A closed server has no TLS: clients retry then, while they take a rejection for a wrong password.
    settings = {"password_encryption": "scram-sha-256", "ssl": "off"}
    if features.has_tls:
        settings |= {
            "ssl": "on" if phase is Phase.OPEN else "off",
            "ssl_cert_file": str(paths.tls / "server.crt"),
            "ssl_key_file": str(paths.tls / "server.key"),
            "ssl_min_protocol_version": "TLSv1.2",
        }
    if server.pg_major >= 16:
        settings["createrole_self_grant"] = "set, inherit"  # as before 16: the creator of a role may use SET ROLE
    if server.pg_major >= 17:
        settings["allow_alter_system"] = "off"
    return settings


def _recovery() -> dict[str, str]:
    return {
        "hot_standby": "on",
        # Does not depend on the number of files; it flushes the whole file system of the pool.
        "recovery_init_sync_method": "syncfs",
        "restart_after_crash": "on",
    }


def _log(paths: ServicePaths) -> dict[str, str]:
    return {
        "logging_collector": "on",
        "log_destination": "jsonlog",
        "log_directory": str(paths.log),
        # At most one file a minute, and none larger than `log_files.FILE_BYTES`: see `log_bound`.
        "log_filename": "server-%Y%m%dT%H%M00.log",
        "log_file_mode": "0600",
        "log_rotation_size": "8MB",
        "log_rotation_age": "1d",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
        "log_statement": "none",
        "log_min_duration_statement": "-1",
        # Statements that fail or wait for a lock may contain a password, so they are not logged.
        "log_min_error_statement": "panic",
        "log_checkpoints": "on",
        "log_lock_waits": "on",
        "log_startup_progress_interval": "1s",
        "lc_messages": "C",
    }


def _behaviour(server: Server, features: Features, phase: Phase) -> dict[str, str]:
    settings = {
        "timezone": "UTC",
        "datestyle": "iso, mdy",
        "lc_monetary": "C",
        "lc_numeric": "C",
        "lc_time": "C",
        "default_text_search_config": "pg_catalog.english",
        "idle_in_transaction_session_timeout": "1d",
        "tcp_keepalives_idle": "60s",
        "tcp_keepalives_interval": "10s",
        "tcp_keepalives_count": "6",
        "client_connection_check_interval": "10s",
        "shared_preload_libraries": ",".join(features.preload),
        "autovacuum": "on" if phase is Phase.OPEN else "off",
        "autovacuum_max_workers": "3",  # always there: PostgreSQL reports one that is removed without its name
        "cron.launch_active_jobs": "on" if phase is Phase.OPEN else "off",
    }
    if features.read_only_module is not None:
        settings[_MODULES] = f'"{features.read_only_module}"'
    if "pg_stat_statements" in features.preload:
        settings["pg_stat_statements.max"] = "1000" if server.size.shared else "5000"
    if "timescaledb" in features.preload:
        settings["timescaledb.telemetry_level"] = "off"
    return settings


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
