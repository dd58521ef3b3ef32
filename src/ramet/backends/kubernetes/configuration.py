"""The configuration of a server, as pure functions: what CloudNativePG adds around it stays its own.

Its lines of pg_hba come before these: they let the system user of the pod in over the local socket, and replicas and
poolers of the operator by certificate. The platform's role enters over that socket.
"""

from enum import StrEnum

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.traits import Traits
from ramet.backends.local.sql.connections import PLATFORM_ROLE, POOLER_ROLE
from ramet.backends.local.sql.mover import MOVER_ROLE
from ramet.model.service_type import ServiceType

_MB_PER_GB = 1024
_SHARED_SIZE_BUFFERS_MB = 64
_CLOSED = "host all all all reject"
_POOLER_MAP = "ramet_pooler"
_REPLICATION_ROLE = "streaming_replica"
_CONNECTIONS = {None: 50, 1: 50, 2: 100, 4: 200}
_MOST_CONNECTIONS = 500
# What the operator sets where nothing else is asked for (CloudNativePG 1.30, pkg/postgres/configuration.go).
_USUAL = {"max_replication_slots": "32"}
# Without that the checkpoint of a shutdown removes WAL that is still being sent.
_COPIED_WAL = "4GB"


class Phase(StrEnum):
    """Whether clients may connect."""

    CLOSED = "closed"
    OPEN = "open"


def pg_hba(phase: Phase, *, admits_copy: bool) -> list[str]:
    """Return the rules for clients; the first match counts. Nobody is let in without TLS.

    Only a copy that another Ramet makes may replicate. Poolers show the certificate that the operator has issued for
    replicas.
    """
    if phase is Phase.CLOSED:
        return [_CLOSED]
    return [
        f"host all {PLATFORM_ROLE} all reject",
        f"hostssl all {POOLER_ROLE} all cert map={_POOLER_MAP}",
        f"host all {POOLER_ROLE} all reject",
        *([f"hostssl replication {MOVER_ROLE} all scram-sha-256"] if admits_copy else []),
        "host replication all all reject",
        "hostssl all all all scram-sha-256",
        _CLOSED,
    ]


def pg_ident() -> list[str]:
    """Return who may enter as the platform, the system user of the pod, and who as a pooler, by certificate."""
    return [f"local postgres {PLATFORM_ROLE}", f"{_POOLER_MAP} {_REPLICATION_ROLE} {POOLER_ROLE}"]


def connections_of(server: Server) -> int:
    """Return max_connections. A replica cannot have fewer than its primary, whose size may change: it has the most."""
    if server.primary is not None:
        return _MOST_CONNECTIONS
    return _CONNECTIONS.get(server.size.memory_gbs, _MOST_CONNECTIONS)


def parameters(server: Server, *, first: bool, traits: Traits) -> dict[str, str]:
    """Return the settings of a server; with `first` those that keep a fork's first start from acting elsewhere."""
    memory_mb = None if server.size.memory_gbs is None else server.size.memory_gbs * _MB_PER_GB
    connections = connections_of(server)
    found = {
        "effective_cache_size": f"{256 if memory_mb is None else memory_mb * 3 // 4}MB",
        "max_connections": str(connections),
        "max_slot_wal_keep_size": "4GB",
        # Recovery would fetch WAL beyond its target, each segment by a program that takes seconds to start.
        "recovery_prefetch": "off",
        "shared_buffers": f"{_SHARED_SIZE_BUFFERS_MB if memory_mb is None else memory_mb // 4}MB",
        "superuser_reserved_connections": "5",
        "track_commit_timestamp": "on",
        "wal_level": server.wal_level.value,
        "work_mem": f"{4 if memory_mb is None else max(4, memory_mb // 4 // connections)}MB",
    }
    if server.service_type is ServiceType.TIMESERIESDB:
        found["timescaledb.telemetry_level"] = "off"
    if first:
        found["max_logical_replication_workers"] = "0"
        if server.service_type is ServiceType.TIMESERIESDB:
            found["timescaledb.max_background_workers"] = "0"
    usual = {**_USUAL, **found}
    found |= {name: str(max(least, int(usual.get(name, 0)))) for name, least in traits.at_least.items()}
    if traits.admits_copy:
        found["wal_keep_size"] = _COPIED_WAL
    return dict(sorted(found.items()))
