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
_ENTERED = 0o111


def _inside(directory: str, name: str) -> cached_property[Path]:
    """Return a property: the path of `name` in another directory of the same service."""

    def path(paths: "ServicePaths") -> Path:
        return Path(getattr(paths, directory), name)

    return cached_property(path)


@dataclass(frozen=True)
class ServicePaths:
    """The paths of one service. `sockets` is outside of `root`, because the path of a socket must be short."""

    root: Path
    sockets: Path

    @cached_property
    def service_id(self) -> str:
        """The service that these paths belong to."""
        return self.root.name

    data = _inside("root", "data")  # PGDATA
    unfinished = _inside("root", "data.unfinished")  # a data directory that is being made
    conf = _inside("root", "conf")  # generated; outside of the data directory, so that no copy of the data inherits it
    config_file = _inside("conf", "postgresql.conf")
    hba_file = _inside("conf", "pg_hba.conf")
    ident_file = _inside("conf", "pg_ident.conf")  # which system users may connect as the platform's role
    tls = _inside("root", "tls")
    archive = _inside("root", "archive")  # WAL, written by this service's server only
    snapshots = _inside("root", "snapshots")  # one directory for each
    log = _inside("root", "log")
    start_log = _inside("log", "start.log")  # the server's output before its logging collector starts
    recovery_log = _inside("log", "recovery.log")  # PostgreSQL's output while it recovers a fork's data
    # Settings in force while the storage is nearly full; not in the pool, where there may be no space for them.
    read_only_file = _inside("sockets", "hold.conf")
    pid_file = _inside("data", "postmaster.pid")  # in a copied data directory it names another server's process
    start_lock = _inside("root", "start.lock")  # held while a server is started in this data directory
    archiving_lock = _inside("root", "off_host.lock")  # held while its archive off the host is read or written
    uploading_lock = _inside("root", "off_host_upload.lock")  # held while a base backup is sent there
    replaced_by = _inside("root", "replaced_by")  # the id of the copy whose data replaces that of this service
    process_record = _inside("root", "process.json")  # of the process that was started here last


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
    """Create a directory that the servers' user may enter but not list, whatever the umask.

    One that exists and belongs to this user is opened to them: whoever made it may have been killed before that.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(0o700, parents=True)
    found = directory.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & _ENTERED != _ENTERED:
        directory.chmod(stat.S_IMODE(found.st_mode) | _ENTERED)


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
                f"{parent} must be a directory that belongs to user {os.geteuid()} and that no other user can write to",
                "Remove it, or set XDG_RUNTIME_DIR to a private directory.",
            )
