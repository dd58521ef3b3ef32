"""Clone a whole tree atomically: trees are btrfs subvolumes, and a clone is a snapshot of one.

Subvolumes are created, copied and removed by ioctl, which needs no external program and no root.
"""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.files import opened
from ramet.backends.local.volumes import copy_tree
from ramet.backends.local.volumes.atomic import built_at, remove_files, removed_from
from ramet.backends.local.volumes.driver import NOTHING, CloneStatistics, Exclusions
from ramet.backends.local.volumes.reflink import ReflinkDriver
from ramet.errors import Failed

_SUBVOL_CREATE = 0x5000940E
_FS_INFO = 0x8400941F
_SNAP_DESTROY = 0x5000940F
_SNAP_CREATE_V2 = 0x50009417
# struct btrfs_ioctl_vol_args and _v2, both 4096 bytes (linux/btrfs.h).
_ARGUMENTS = struct.Struct("=q4088s")
_ARGUMENTS_V2 = struct.Struct("=qQQ32s4040s")
_SUBVOLUME_INODE = 256
_NESTED_STUB_INODE = 2


class BtrfsDriver(ReflinkDriver):
    """Trees are subvolumes; a snapshot takes the same time at any size, and excluded files are deleted from it."""

    name = "btrfs"
    atomic = True

    def describe(self) -> str:
        """Say in one sentence what a fork costs."""
        return "A fork is a snapshot of one instant that shares every block with its parent; size does not matter."

    def create_tree(self, path: Path) -> None:
        """Make an empty subvolume."""
        _call(_SUBVOL_CREATE, path, _ARGUMENTS.pack(0, os.fsencode(path.name)))
        path.chmod(0o700)

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a snapshot of the subvolume `source`, without the excluded files."""
        with built_at(target, _remove) as partial:
            _snapshot(source, partial)
            pruning = _Pruning(source, exclusions)
            pruning.directory(partial, "")
            return CloneStatistics(pruning.files, pruning.size_bytes)

    def remove_tree(self, path: Path) -> None:
        """Remove a subvolume, those inside it, and every incomplete one of that name."""
        removed_from(path, _remove)


def is_btrfs(path: Path) -> bool:
    """Tell whether `path` is on btrfs."""
    with opened(path) as descriptor:
        try:
            fcntl.ioctl(descriptor, _FS_INFO, bytearray(1024))
        except OSError:
            return False
    return True


def _snapshot(source: Path, target: Path) -> None:
    with opened(source, os.O_DIRECTORY) as descriptor:
        if os.fstat(descriptor).st_ino != _SUBVOLUME_INODE:
            raise Failed("NO_SUBVOLUME", f"{source} is a plain directory; only a btrfs subvolume can be snapshotted")
        _call(_SNAP_CREATE_V2, target, _ARGUMENTS_V2.pack(descriptor, 0, 0, b"", os.fsencode(target.name)))


def _call(request: int, path: Path, arguments: bytes) -> None:
    """Send an ioctl about the entry `path` to the directory that holds it."""
    with opened(path.parent, os.O_DIRECTORY) as parent:
        try:
            fcntl.ioctl(parent, request, bytearray(arguments))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error


class _Pruning:
    """One pass over a new snapshot: deletes the excluded files, and counts the others."""

    def __init__(self, source: Path, exclusions: Exclusions) -> None:
        self.files = 0
        self.size_bytes = 0
        self._source = source
        self._exclusions = exclusions

    def directory(self, path: Path, relative: str) -> None:
        """Prune one directory of the snapshot; `relative` is its path inside the tree."""
        with os.scandir(path) as scan:
            entries = list(scan)
        for entry in entries:
            if self._exclusions.leaves_out(entry.name):
                _remove(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                self.files += 1
                self.size_bytes += entry.stat(follow_symlinks=False).st_size
            else:
                self._other(entry, f"{relative}/{entry.name}" if relative else entry.name)

    def _other(self, entry: os.DirEntry[str], relative: str) -> None:
        status = entry.stat(follow_symlinks=False)
        if relative in self._exclusions.emptied:
            _empty(Path(entry.path), status)
        elif stat.S_ISLNK(status.st_mode):
            raise copy_tree.symlink_refused(self._source / relative)
        elif status.st_ino == _NESTED_STUB_INODE:
            raise Failed(
                "NESTED_SUBVOLUME",
                f"{self._source / relative} is a separate subvolume; a snapshot would not contain its files."
                " Make it a plain directory",
            )
        elif stat.S_ISDIR(status.st_mode):
            self.directory(Path(entry.path), relative)


def _empty(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode) and status.st_ino != _NESTED_STUB_INODE:
        for child in list(path.iterdir()):
            _remove(child)
        return
    # A symbolic link (pg_wal elsewhere) or the stub of a nested subvolume is replaced by a plain directory.
    _remove(path)
    files.make_directory(path.parent, path.name)


def _remove(path: Path) -> None:
    """Remove a subvolume or anything else, with the subvolumes inside it."""
    if _destroyed(path):
        return
    for nested in _subvolumes_in(path):
        _remove(nested)
    if not _destroyed(path):
        remove_files(path)


def _destroyed(path: Path) -> bool:
    """Remove `path` when it is a subvolume without nested ones and this user may; tell whether it is gone."""
    try:
        if os.lstat(path).st_ino != _SUBVOLUME_INODE:
            return False
        _call(_SNAP_DESTROY, path, _ARGUMENTS.pack(0, os.fsencode(path.name)))
    except FileNotFoundError:
        return True
    except OSError as error:
        # Without the mount option user_subvol_rm_allowed an ordinary user may only empty it and use rmdir.
        if error.errno not in (errno.ENOTEMPTY, errno.EPERM, errno.EACCES):
            raise
        return False
    return True


def _subvolumes_in(path: Path) -> Iterator[Path]:
    for directory, names, _files in os.walk(path):
        for name in list(names):
            inside = Path(directory, name)
            if inside.lstat().st_ino == _SUBVOLUME_INODE:
                names.remove(name)
                yield inside
