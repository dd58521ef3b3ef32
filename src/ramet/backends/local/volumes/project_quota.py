"""Project quotas of XFS: all files of a service except its snapshots have its project ID, which limits their blocks.

Shared blocks count for each project that uses them. A file cannot be renamed into a directory of another project
(xfs_rename: EXDEV), so the prepared copy of a snapshot is copied into a fork instead of being moved.
"""

import fcntl
import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host.files import opened
from ramet.backends.local.volumes.quota import Place, Quotas
from ramet.errors import Failed
from ramet.machine.programs import run

# linux/fs.h: struct fsxattr
_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820
_ATTRIBUTES = struct.Struct("=IIIII8x")
_INHERITED = 0x200
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_GIB = 1024**3


@dataclass(frozen=True)
class ProjectQuotas(Quotas):
    """A limit for each service, as a project of the file system that is mounted at `mount`."""

    mount: Path
    limit_bytes: int

    def describe(self) -> str:
        """Say what is enforced."""
        return (
            f"The data, WAL, archive and temporary files of a service may take {self.limit_bytes / _GIB:g} GiB"
            " (project quotas of XFS); snapshots do not count."
        )

    def enclose(self, place: Place) -> None:
        """Assign the directories and files of a service to its project, unless that was done before.

        An exchange that was given up can leave data in the project of another service.
        """
        project = project_of(place.root.name)
        if all(attributes(path)[1] == project for path in (place.root, place.data) if path.is_dir()):
            return
        for path, is_directory in _tree(place.root, place.exempt):
            set_project(path, project, inherited=is_directory)
        if place.exempt.is_dir():
            set_project(place.exempt, 0, inherited=False)
        set_project(place.root, project, inherited=True)

    def adopt(self, place: Place, tree: Path) -> None:
        """Assign a directory of another service to the project: only then can it be renamed into this one."""
        project = project_of(place.root.name)
        set_project(tree, project, inherited=True)  # first: it shows `enclose` that the rest may be assigned, too
        for path, is_directory in _tree(tree, place.exempt):
            set_project(path, project, inherited=is_directory)

    def apply(self, place: Place) -> None:
        """Set the limit of the service's project."""
        self.enclose(place)
        limit = f"limit -p bhard={self.limit_bytes} {project_of(place.root.name)}"
        run(["xfs_quota", "-x", "-c", limit, str(self.mount)])

    def free_bytes(self, place: Place) -> int | None:
        """Return the bytes that may still be written: statvfs() of a directory reports its project's quota on XFS."""
        status = os.statvfs(place.data)
        if status.f_blocks * status.f_frsize > self.limit_bytes:
            return None
        return status.f_bavail * status.f_frsize


def is_enforced(mount: Path) -> bool:
    """Tell whether project quotas are enforced in the file system that is mounted there."""
    try:
        return "Enforcement: ON" in run(["xfs_quota", "-x", "-c", "state -p", str(mount)])
    except Failed:
        return False


def project_of(service_id: str) -> int:
    """Return the project ID of a service; it is never 0, the default project."""
    return int.from_bytes(hashlib.blake2b(service_id.encode(), digest_size=4).digest()) & 0x7FFFFFFF or 1


def attributes(path: Path) -> tuple[bool, int]:
    """Tell whether new files in a directory inherit its project, and return the project of a path."""
    with opened(path, _OPEN) as descriptor:
        flags, _, _, project, _ = _read(descriptor)
    return bool(flags & _INHERITED), project


def set_project(path: Path, project: int, *, inherited: bool) -> None:
    """Assign a file or directory to a project."""
    with opened(path, _OPEN) as descriptor:
        flags, extent, extents, _, cow_extent = _read(descriptor)
        flags = flags | _INHERITED if inherited else flags & ~_INHERITED
        fcntl.ioctl(descriptor, _SET_ATTRIBUTES, _ATTRIBUTES.pack(flags, extent, extents, project, cow_extent))


def _tree(root: Path, exempt: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files and directories below `root` except `exempt`, and whether each is a directory.

    A directory follows what is in it: once it has a project, so have all its files.
    """
    for path in root.iterdir():
        mode = path.lstat().st_mode
        if path == exempt or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            continue
        if stat.S_ISDIR(mode):
            yield from _tree(path, exempt)
        yield path, stat.S_ISDIR(mode)


def _read(descriptor: int) -> tuple[int, int, int, int, int]:
    found = bytearray(_ATTRIBUTES.size)
    fcntl.ioctl(descriptor, _GET_ATTRIBUTES, found)
    flags, extent, extents, project, cow_extent = _ATTRIBUTES.unpack(found)
    return flags, extent, extents, project, cow_extent
