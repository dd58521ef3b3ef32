"""The files and directories of a service on this host: a directory in the pool, and a short one for its socket."""

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ramet.errors import Failed

_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class ServicePaths:
    """The paths of one service. `sockets` is outside of `root`, because the path of a socket must be short."""

    root: Path
    sockets: Path

    @cached_property
    def service_id(self) -> str:
        """The service that these paths belong to."""
        return self.root.name

    @cached_property
    def data(self) -> Path:
        """The data directory (PGDATA)."""
        return self.root / "data"

    @cached_property
    def conf(self) -> Path:
        """The generated configuration; outside of the data directory, so that no copy of the data inherits it."""
        return self.root / "conf"

    @cached_property
    def config_file(self) -> Path:
        """The main configuration file."""
        return self.conf / "postgresql.conf"

    @cached_property
    def hba_file(self) -> Path:
        """The host-based authentication file."""
        return self.conf / "pg_hba.conf"

    @cached_property
    def ident_file(self) -> Path:
        """The user name map: which system users may connect as the platform's role."""
        return self.conf / "pg_ident.conf"

    @cached_property
    def tls(self) -> Path:
        """The service's certificate and key."""
        return self.root / "tls"

    @cached_property
    def archive(self) -> Path:
        """The WAL archive, written by this service's server only."""
        return self.root / "archive"

    @cached_property
    def snapshots(self) -> Path:
        """One directory for each snapshot."""
        return self.root / "snapshots"

    @cached_property
    def log(self) -> Path:
        """The server's log files."""
        return self.root / "log"

    @cached_property
    def start_log(self) -> Path:
        """The output of the server before its logging collector starts."""
        return self.log / "start.log"

    @cached_property
    def recovery_log(self) -> Path:
        """The output of PostgreSQL while it recovers a fork's data."""
        return self.log / "recovery.log"

    @cached_property
    def read_only_file(self) -> Path:
        """Settings in force while the storage is nearly full; not in the pool, where there may be no space for them."""
        return self.sockets / "hold.conf"

    @cached_property
    def pid_file(self) -> Path:
        """The lock file of PostgreSQL; in a copied data directory it names another server's process."""
        return self.data / "postmaster.pid"

    @cached_property
    def start_lock(self) -> Path:
        """Locked while a server is started in this data directory."""
        return self.root / "start.lock"

    @cached_property
    def process_record(self) -> Path:
        """The record of the process that was started here last."""
        return self.root / "process.json"


@dataclass(frozen=True)
class Layout:
    """The directories of all services of one data root."""

    services: Path
    sockets: Path

    def service(self, service_id: str) -> ServicePaths:
        """Return the paths of one service; nothing is created."""
        return ServicePaths(self.services / service_id, self.sockets / service_id)


def digest_of(data_root: Path) -> str:
    """Return a short identifier of a data root, unique on this host, for the paths of sockets."""
    return hashlib.sha256(os.fsencode(data_root.resolve())).hexdigest()[:8]


def layout_of(data_root: Path, pool: Path) -> Layout:
    """Return the layout for a data root whose pool is at `pool`."""
    # Resolved, as in /proc/PID/cwd: a server is recognized by its working directory.
    return Layout(pool.resolve() / "services", _socket_root() / digest_of(data_root))


def _socket_root() -> Path:
    if os.geteuid() == 0:
        return Path("/run/ramet")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and len(runtime) <= 40 and os.access(runtime, os.W_OK):
        return Path(runtime) / "ramet"
    return Path(f"/tmp/ramet-{os.geteuid()}")  # noqa: S108 - checked by make_private_parents


def sweep_sockets(layout: Layout, now: float) -> None:
    """Remove the empty socket directories of data roots that were killed or removed long ago.

    The next start of a server creates its directory again when it is missing.
    """
    for path in layout.sockets.parent.glob("*"):
        with contextlib.suppress(OSError):  # it is not empty, or another process removed it
            if path != layout.sockets and path.stat().st_mtime < now - _ABANDONED_SECONDS:
                path.rmdir()


def make_passage(directory: Path) -> None:
    """Create a directory that the servers' user may enter but not list, whatever the umask."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        return
    directory.chmod(0o711)


def make_private_parents(directory: Path) -> None:
    """Create the directories above a socket directory.

    Raises Failed when one of them is a symbolic link, belongs to another user, or is writable for others.
    """
    for parent in (directory.parent.parent, directory.parent):
        make_passage(parent)
        found = parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Failed(
                "UNSAFE_SOCKET_DIRECTORY",
                f"{parent} must be a directory that belongs to user {os.geteuid()} and that nobody else can write to",
                "Remove it, or set XDG_RUNTIME_DIR to a private directory.",
            )
