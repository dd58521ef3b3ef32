"""System calls that Python has no name for, and the one way of running an external program."""

import ctypes
import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ramet.errors import Failed

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_TAIL_CHARACTERS = 800

_libc = ctypes.CDLL(None, use_errno=True)


def sync_tree(path: Path) -> None:
    """Flush the whole file system that holds `path` (syncfs): one call, however many files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            _raise_errno(path)
    finally:
        os.close(descriptor)


def move_new(source: Path, target: Path) -> None:
    """Rename, and never onto something: raises FileExistsError."""
    if _rename_noreplace(source, target) == 0:
        return
    if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
        _raise_errno(target)
    # Network file systems have no RENAME_NOREPLACE: there the check and the rename are two steps.
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def _rename_noreplace(source: Path, target: Path) -> int:
    result: int = _libc.renameat2(
        _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(_RENAME_NOREPLACE)
    )
    return result


def _raise_errno(path: Path) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), str(path))


def run(argv: Sequence[str], *, timeout_seconds: float = 60) -> str:
    """Run a program and return what it printed; raise Failed with argv, status and the end of its messages."""
    command = " ".join(argv)
    try:
        result = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except FileNotFoundError as error:
        raise Failed("PROGRAM_MISSING", f"The program {argv[0]} is not installed", f"Wanted: {command}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed("PROGRAM_TIMED_OUT", f"{command} did not end within {timeout_seconds:g} seconds") from error
    if result.returncode != 0:
        tail = result.stderr.strip()[-_TAIL_CHARACTERS:]
        raise Failed("PROGRAM_FAILED", f"{command} ended with status {result.returncode}", tail)
    return result.stdout
