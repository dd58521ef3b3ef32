"""Where everything of a service lies on this host: a directory in the pool, and a short one for its socket."""

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
    """The places of one service. `root` is the copy-on-write unit; `sockets` lies outside, for sun_path is short."""

    root: Path
    sockets: Path

    @cached_property
    def service_id(self) -> str:
        """The service whose places these are."""
        return self.root.name

    @cached_property
    def data(self) -> Path:
        """The data directory (PGDATA)."""
        return self.root / "data"

    @cached_property
    def conf(self) -> Path:
        """The generated configuration; outside the data directory, so that no copy of that inherits it."""
        return self.root / "conf"

    @cached_property
    def config_file(self) -> Path:
        """The main configuration file."""
        return self.conf / "postgresql.conf"

    @cached_property
    def hba_file(self) -> Path:
        """Who may connect."""
        return self.conf / "pg_hba.conf"

    @cached_property
    def ident_file(self) -> Path:
        """Which users of the host are the platform."""
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
        """What the server says before its log collector runs."""
        return self.log / "start.log"

    @cached_property
    def recovery_log(self) -> Path:
        """What PostgreSQL says while it recovers a fork's data."""
        return self.log / "recovery.log"

    @cached_property
    def read_only_file(self) -> Path:
        """Settings that hold while the storage is nearly full; outside of it, so that there is room for them."""
        return self.sockets / "hold.conf"

    @cached_property
    def pid_file(self) -> Path:
        """The lock file of PostgreSQL; a copied one names another server's process."""
        return self.data / "postmaster.pid"

    @cached_property
    def start_lock(self) -> Path:
        """Held while a server is started here."""
        return self.root / "start.lock"

    @cached_property
    def process_record(self) -> Path:
        """Which process was started here last."""
        return self.root / "process.json"


@dataclass(frozen=True)
class Layout:
    """Where the services of one data root lie."""

    services: Path
    sockets: Path

    def service(self, service_id: str) -> ServicePaths:
        """Return the places of one service; nothing is made."""
        return ServicePaths(self.services / service_id, self.sockets / service_id)


def digest_of(data_root: Path) -> str:
    """Return what tells a data root from the others of this host, short enough for a socket's path."""
    return hashlib.sha256(os.fsencode(data_root.resolve())).hexdigest()[:8]


def layout_of(data_root: Path, pool: Path) -> Layout:
    """Return the layout for a data root whose pool is mounted or lies at `pool`."""
    # Resolved, because the kernel tells a process's directory so: a server is known by it.
    return Layout(pool.resolve() / "services", _socket_root() / digest_of(data_root))


def _socket_root() -> Path:
    if os.geteuid() == 0:
        return Path("/run/ramet")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and len(runtime) <= 40 and os.access(runtime, os.W_OK):
        return Path(runtime) / "ramet"
    return Path(f"/tmp/ramet-{os.geteuid()}")  # noqa: S108 - checked by make_private_parents


def sweep_sockets(layout: Layout, now: float) -> None:
    """Remove the empty directories for sockets that data roots have left which were killed or removed long ago.

    One that is needed after all is made anew at the next start of a server.
    """
    for path in layout.sockets.parent.glob("*"):
        with contextlib.suppress(OSError):  # it is not empty, or another process was faster
            if path != layout.sockets and path.stat().st_mtime < now - _ABANDONED_SECONDS:
                path.rmdir()


def make_passage(directory: Path) -> None:
    """Make a directory that the servers' user may pass through and not list, whatever our umask is."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        return
    directory.chmod(0o711)


def make_private_parents(directory: Path) -> None:
    """Make the directories above a socket directory, and refuse those that another user could change.

    Raises Failed when one of Ramet's own is a link, another user's, or writable for others.
    """
    for parent in (directory.parent.parent, directory.parent):
        make_passage(parent)
        found = parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Failed(
                "UNSAFE_SOCKET_DIRECTORY",
                f"{parent} must be a directory that only its owner {os.geteuid()} can change",
                "Remove it, or set XDG_RUNTIME_DIR to a private directory.",
            )
