"""Copy a directory tree file by file, while its source may be written to.

The caller's function copies the content of one file. Directories are walked relative to open descriptors, so the kernel
does not resolve the whole path for each file.
"""

import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ramet.backends.local.host.files import opened
from ramet.backends.local.volumes.driver import CloneStatistics, Exclusions
from ramet.errors import Failed

# (source descriptor, target descriptor, status of the source)
Transfer = Callable[[int, int, os.stat_result], None]
# Says of a file, by its name and status, which name its copy has, and how its content is copied.
Form = Callable[[str, os.stat_result], tuple[str, Transfer]]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_DIRECTORY = _READ | os.O_DIRECTORY
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# PostgreSQL 15 docs, 26.3.3: the control file is copied last, so that it is never older than a data file.
_HELD_BACK = {"global": "pg_control"}


def copy_tree(source: Path, target: Path, exclusions: Exclusions, form: Form) -> CloneStatistics:
    """Copy the tree `source` to the new directory `target`."""
    copying = _Copying(source, exclusions, form)
    with opened(source, _READ_DIRECTORY) as root:
        copying.directory(root, os.fspath(target), None, "")
    for directory, name in _HELD_BACK.items():
        copying.held_back(source / directory, target / directory, name)
    return CloneStatistics(copying.files, copying.size_bytes)


def same_names(transfer: Transfer) -> Form:
    """Return the form of copies whose files have the names of their sources."""
    return partial(_under_its_name, transfer)


def _under_its_name(transfer: Transfer, name: str, _status: os.stat_result) -> tuple[str, Transfer]:
    return name, transfer


def copy_file(source: Path, target: Path, transfer: Transfer) -> None:
    """Copy one file to the new name `target`, with mode and owner."""
    with opened(source, _READ) as descriptor:
        _copy_open_file(descriptor, os.fspath(target), None, os.fstat(descriptor), transfer)


class _Copying:
    """One run of copy_tree, with its counters."""

    def __init__(self, source: Path, exclusions: Exclusions, form: Form) -> None:
        self.files = 0
        self.size_bytes = 0
        self._source = source
        self._exclusions = exclusions
        self._form = form

    def directory(self, source: int, name: str, parent: int | None, relative: str) -> None:
        """Make the directory `name` in `parent` and fill it from the open directory `source`."""
        status = os.fstat(source)
        os.mkdir(name, 0o700, dir_fd=parent)
        target = os.open(name, _READ_DIRECTORY, dir_fd=parent)
        try:
            _take_owner_and_mode(target, status, made_with=0o700)
            if relative not in self._exclusions.emptied:
                self._fill(source, target, relative)
        finally:
            os.close(target)

    def _fill(self, source: int, target: int, relative: str) -> None:
        held_back = _HELD_BACK.get(relative)
        with os.scandir(source) as scan:
            entries = [entry for entry in scan if not self._exclusions.leaves_out(entry.name)]
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                if entry.name != held_back:
                    self._file(source, target, entry.name)
            else:
                self._other(source, target, entry, f"{relative}/{entry.name}" if relative else entry.name)

    def _other(self, source: int, target: int, entry: os.DirEntry[str], relative: str) -> None:
        if entry.is_symlink():
            if relative not in self._exclusions.emptied:
                raise symlink_refused(self._source / relative)
            os.mkdir(entry.name, 0o700, dir_fd=target)
            _take_owner_of(source, target, entry.name)
        elif entry.is_dir(follow_symlinks=False):
            try:
                descriptor = os.open(entry.name, _READ_DIRECTORY, dir_fd=source)
            except FileNotFoundError:
                return
            try:
                self.directory(descriptor, entry.name, target, relative)
            finally:
                os.close(descriptor)

    def _file(self, source: int, target: int, name: str) -> None:
        try:
            descriptor = os.open(name, _READ, dir_fd=source)
        except FileNotFoundError:
            return
        try:
            status = os.fstat(descriptor)
            copied_as, transfer = self._form(name, status)
            _copy_open_file(descriptor, copied_as, target, status, transfer)
            self.size_bytes += status.st_size
            self.files += 1
        finally:
            os.close(descriptor)

    def held_back(self, source: Path, target: Path, name: str) -> None:
        """Copy a file that the walk has skipped, if it exists."""
        if self._exclusions.leaves_out(name) or not target.is_dir() or not (source / name).exists():
            return
        with opened(source, _READ_DIRECTORY) as source_directory, opened(target, _READ_DIRECTORY) as target_directory:
            self._file(source_directory, target_directory, name)


def _copy_open_file(source: int, name: str, parent: int | None, status: os.stat_result, transfer: Transfer) -> None:
    mode = stat.S_IMODE(status.st_mode)
    target = os.open(name, _WRITE_NEW, mode, dir_fd=parent)
    try:
        _take_owner_and_mode(target, status, made_with=mode)
        if status.st_size:
            transfer(source, target, status)
    finally:
        os.close(target)


def _take_owner_and_mode(descriptor: int, status: os.stat_result, *, made_with: int) -> None:
    if os.geteuid() == 0 and (status.st_uid, status.st_gid) != (0, 0):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    mode = stat.S_IMODE(status.st_mode)
    # The umask may have removed permissions of group and others; no sensible umask removes those of the owner.
    if mode != made_with or mode & 0o077:
        os.fchmod(descriptor, mode)


def _take_owner_of(source: int, target: int, name: str) -> None:
    if os.geteuid() == 0:
        status = os.fstat(source)
        os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)


def symlink_refused(path: Path) -> Failed:
    """Return the error for a symbolic link: its copy would point to the files of the source."""
    return Failed(
        "SYMLINK_IN_DATA",
        f"{path} is a symbolic link to {path.readlink()}; a copy would write through it into the original."
        " Move what it points to (a tablespace, for instance) into the data directory",
    )
