"""Make sessions read-only while the storage is nearly full: a server that cannot write its WAL shuts down.

It sets default_transaction_read_only, which a session may switch off for itself to drop tables. What arrives from
databases elsewhere takes no notice of that setting: subscriptions stop at once, and standbys a little later.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Exhausted

_MIB = 1024**2
_SHARE = 20
_LEAST_BYTES, _MOST_BYTES = 128 * _MIB, 2048 * _MIB
_LEAST_TEMP_FILE_MBS, _MOST_TEMP_FILE_MBS = 64, 65536
_READ_ONLY_TEMP_FILE_MBS = 16
_SLOT_WAL_SHARE = 10
_LEAST_SLOT_WAL_MBS, _MOST_SLOT_WAL_MBS = 64, 4096
# Frequent checkpoints: each removes WAL that is archived, and that no slot retains.
_SETTINGS = (
    "default_transaction_read_only = 'on'\ncheckpoint_timeout = '30s'\n"
    f"temp_file_limit = '{_READ_ONLY_TEMP_FILE_MBS}MB'\nmax_slot_wal_keep_size = '{_LEAST_SLOT_WAL_MBS}MB'\n"
)
# The launcher starts no worker of a subscription again within this time.
_NO_WORKERS = "wal_retrieve_retry_interval = '1d'\n"
_RECEIVES_NOTHING = "primary_conninfo = ''\nrestore_command = ''\n"
NOT_RECEIVED = "Nothing is received while the storage is nearly full. It follows again by itself when there is space."
_TEMPORARY = "pgsql_tmp"
_TEMPORARY_OF = re.compile(r"pgsql_tmp(\d+)\.")
# The decrease of free space is extrapolated for this time, up to this part of the storage.
_FORESIGHT_SECONDS = 3.0
_MOST_FORESEEN = 8
_LONGEST_GLANCE_SECONDS = 10.0


@dataclass(frozen=True)
class Room:
    """The free space at one time (seconds of the monotonic clock), and how fast it decreases (bytes a second)."""

    at_seconds: float
    free_bytes: int
    total_bytes: int
    falls_by: float = 0.0

    def then(self, at_seconds: float, free_bytes: int, total_bytes: int) -> "Room":
        """Return the free space at a later time."""
        passed = at_seconds - self.at_seconds
        falls_by = max(0.0, (self.free_bytes - free_bytes) / passed) if 0 < passed < _LONGEST_GLANCE_SECONDS else 0.0
        return Room(at_seconds, free_bytes, total_bytes, falls_by)

    @property
    def limit_bytes(self) -> int:
        """Return how many bytes must be free."""
        return min(max(self.total_bytes // _SHARE, _LEAST_BYTES), _MOST_BYTES)

    @property
    def reserve_bytes(self) -> int:
        """Return the size of the reserve that is removed when almost no space is free; too small to start a fork."""
        return self.limit_bytes * 3 // 8

    @property
    def is_half_gone(self) -> bool:
        """Tell whether standbys must not receive more, though their sources may remove the WAL that they miss."""
        return self.free_bytes < self.limit_bytes // 2

    @property
    def is_all_but_gone(self) -> bool:
        """Tell whether servers need the space of the reserve."""
        return self.free_bytes < self.limit_bytes // 4

    @property
    def is_ample(self) -> bool:
        """Tell whether a reserve can be created without filling the storage."""
        return self.free_bytes >= 3 * self.limit_bytes

    def pressure(self, *, lasting: bool) -> str | None:
        """Return a sentence when too little space is free, else None; with `lasting`, twice as much must be free.

        The limit is reached earlier when free space decreases fast.
        """
        limit = self.limit_bytes
        foreseen = self.free_bytes - min(int(self.falls_by * _FORESIGHT_SECONDS), self.total_bytes // _MOST_FORESEEN)
        if foreseen >= limit and (not lasting or self.free_bytes >= 2 * limit):
            return None
        return (
            f"The storage has {self.free_bytes // _MIB} MiB left: sessions are read-only until it has"
            f" {2 * limit // _MIB} MiB. Delete services, enlarge the storage, or drop tables after"
            " SET default_transaction_read_only = off; their space is free when no snapshot of the restore window"
            " contains them."
        )


class FreeSpace:
    """The last measurement of free space, to compute how fast it decreases."""

    def __init__(self) -> None:
        self._last: Room | None = None

    def measure(self, pool: Pool) -> Room:
        """Return the free space of the storage now."""
        now, free, total = time.monotonic(), pool.free_bytes(), pool.total_bytes()
        self._last = Room(now, free, total) if self._last is None else self._last.then(now, free, total)
        return self._last

    def forget(self) -> None:
        """Extrapolate nothing from the last measurement: Ramet itself has taken space since."""
        self._last = None


def quota_pressure(free_bytes: int, *, lasting: bool) -> str | None:
    """Return a sentence when little of a service's quota is left; a server that cannot write its WAL shuts down."""
    if free_bytes >= (2 * _LEAST_BYTES if lasting else _LEAST_BYTES):
        return None
    return (
        f"The service has {free_bytes // _MIB} MiB of its quota left: its sessions are read-only until it has"
        f" {2 * _LEAST_BYTES // _MIB} MiB. Drop tables after SET default_transaction_read_only = off, or have"
        " RAMET_SERVICE_QUOTA_GBS raised."
    )


def temp_file_mbs(total_bytes: int) -> int:
    """Return the default limit of the temporary files of one process, in MiB."""
    return min(max(total_bytes // _SHARE // _MIB, _LEAST_TEMP_FILE_MBS), _MOST_TEMP_FILE_MBS)


def slot_wal_mbs(total_bytes: int) -> int:
    """Return how much WAL the replication slots of a service may retain, in MiB; less while its storage is full."""
    return min(max(total_bytes // _SLOT_WAL_SHARE // _MIB, _LEAST_SLOT_WAL_MBS), _MOST_SLOT_WAL_MBS)


def room_of(pool: Pool) -> Room:
    """Return the free space of the storage, without how fast it decreases."""
    return Room(time.monotonic(), pool.free_bytes(), pool.total_bytes())


def check_limit(pool: Pool, work: str, remedy: str) -> None:
    """Raise Exhausted before `work` takes the space that other services need to go on."""
    room = room_of(pool)
    if room.free_bytes < room.limit_bytes:
        raise Exhausted(
            "NOT_ENOUGH_DISK",
            f"The storage has {room.free_bytes // _MIB} MiB left, and other services need"
            f" {room.limit_bytes // _MIB} MiB to go on, so the {work} was stopped",
            f"Delete services that are not needed, or enlarge the storage at {pool.path}; then {remedy}.",
        )


def set_read_only(paths: ServicePaths, *, is_standby: bool = False, receives: bool = True) -> None:
    """Make new transactions read-only, and end sessions that write data or large temporary files. May run again.

    Nothing of a subscription arrives either. A standby that does not receive any more begins again with set_writable.
    """
    known = files.read(paths.read_only_file)
    added = _NO_WORKERS
    if is_standby:
        added = "" if receives and _RECEIVES_NOTHING not in known else _RECEIVES_NOTHING
    if known != _SETTINGS + added:
        files.write(paths.read_only_file, _SETTINGS + added)
        postgres.reload(paths)
    since = datetime.fromtimestamp(paths.read_only_file.stat().st_mtime, UTC)
    with connections.connect(paths) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type ~ '^logical replication.* worker$' OR backend_type = 'client backend'"
            " AND usename IS DISTINCT FROM %(platform)s AND (backend_xid IS NOT NULL AND xact_start < %(since)s"
            " AND %(since)s <= clock_timestamp()"  # end no session when the clock was set back
            " OR pid IN (SELECT coalesce(leader_pid, pid) FROM pg_stat_activity WHERE pid = ANY(%(large)s)))",
            {"platform": connections.PLATFORM_ROLE, "since": since, "large": [*_sessions_with_large_files(paths)]},
        )


def _sessions_with_large_files(paths: ServicePaths) -> Iterator[int]:
    """Yield the processes whose temporary files exceed the new limit, which does not apply to running statements."""
    sizes: dict[int, int] = {}
    top = paths.data / "base" / _TEMPORARY
    for directory, _, names in os.walk(top):  # it leaves out what goes away, as the file sets of parallel joins do
        for path in (Path(directory, name) for name in names):
            owner = _TEMPORARY_OF.match(path.relative_to(top).parts[0])
            if owner is not None:
                sizes[int(owner[1])] = sizes.get(int(owner[1]), 0) + _size_bytes(path)
    yield from (pid for pid, size in sizes.items() if size > _READ_ONLY_TEMP_FILE_MBS * _MIB)


def _size_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def receives_nothing(paths: ServicePaths) -> bool:
    """Tell whether a standby, or a subscription, receives nothing because the storage is nearly full."""
    known = files.read(paths.read_only_file)
    return _RECEIVES_NOTHING in known or _NO_WORKERS in known


def set_writable(paths: ServicePaths) -> None:
    """Allow sessions to write again. May run again."""
    if paths.read_only_file.exists():
        paths.read_only_file.unlink()
        postgres.reload(paths)
