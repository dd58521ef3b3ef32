"""Packed trees: copies whose larger files are compressed (zstd), for snapshots where copies share no blocks.

A packed file has the name of its source and a suffix. Equal files of two packed trees may be one file with two names:
nothing writes into a packed tree once it is complete, and what is unpacked from it are new files.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from ramet.backends.local.volumes import copy_tree, disk_usage, helper_process
from ramet.backends.local.volumes.atomic import built_at, remove_apart
from ramet.backends.local.volumes.copy import CopyDriver, check_reserve, copy_bytes, ensure_room
from ramet.backends.local.volumes.driver import NOTHING, CloneStatistics, Exclusions
from ramet.errors import Failed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_SUFFIX = ".zst"
# The control file and what is read without unpacking are no larger.
_PLAIN_BYTES = 8192
_LEVEL = 1
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}
_CHUNK_BYTES = 1024 * 1024
_BEST_RATIO = 16
_BLOCK_BYTES = 64 * 1024


class PackingDriver(CopyDriver):
    """Makes packed trees; a file that is equal to that of the packed tree `earlier` becomes another name of it."""

    def __init__(self, earlier: Path | None) -> None:
        self._earlier = earlier

    def clone_tree(self, source: Path, target: Path, exclusions: Exclusions = NOTHING) -> CloneStatistics:
        """Make `target` a packed copy of the tree `source`."""
        with built_at(target, remove_apart) as partial:
            ensure_room(self.estimate_bytes(source, exclusions), target)
            return helper_process.call_to_copy(_pack_tree, source, partial, exclusions, self._earlier)

    def estimate_bytes(self, source: Path, exclusions: Exclusions = NOTHING) -> int:
        """Return what a clone takes at least: about as much as the earlier tree, before equal files are shared."""
        least = super().estimate_bytes(source, exclusions) // _BEST_RATIO
        if self._earlier is not None:
            with contextlib.suppress(FileNotFoundError):  # it was removed just now
                return max(least, disk_usage.allocated_bytes(self._earlier))
        return least

    def transfer(self) -> copy_tree.Transfer:
        """Return how single files are copied: with holes for the zeros that follow the end of the WAL."""
        return _copy_without_zeros


def unpack_tree(source: Path, target: Path, exclusions: Exclusions, size_bytes: int) -> None:
    """Make `target` a copy of the packed tree `source`, whose files have `size_bytes`, as Driver.clone_tree does.

    Raises Failed for a file that is damaged.
    """
    with built_at(target, remove_apart) as partial:
        ensure_room(size_bytes, target)
        helper_process.call_to_copy(copy_tree.copy_tree, source, partial, exclusions, _unpacked)


def _pack_tree(source: Path, target: Path, exclusions: Exclusions, earlier: Path | None) -> CloneStatistics:
    statistics = copy_tree.copy_tree(source, target, exclusions, _packed)
    if earlier is not None:
        _share_equal_files(target, earlier)
    return statistics


def _packed(name: str, status: os.stat_result) -> tuple[str, copy_tree.Transfer]:
    is_plain = status.st_size <= _PLAIN_BYTES and not name.endswith(_SUFFIX)
    return (name, copy_bytes) if is_plain else (name + _SUFFIX, _compress)


def _unpacked(name: str, _status: os.stat_result) -> tuple[str, copy_tree.Transfer]:
    return (name.removesuffix(_SUFFIX), _decompress) if name.endswith(_SUFFIX) else (name, _copy_all)


def _compress(source: int, target: int, status: os.stat_result) -> None:
    with _opened(source, target) as (plain, packed), zstd.ZstdFile(packed, "wb", options=_OPTIONS) as compressing:
        left = status.st_size  # what is appended during the copy is in the WAL
        while left and (data := plain.read(min(left, _CHUNK_BYTES))):
            check_reserve(target)
            compressing.write(data)
            left -= len(data)


def _decompress(source: int, target: int, _status: os.stat_result) -> None:
    with _opened(source, target) as (packed, plain):
        try:
            with zstd.ZstdFile(packed) as decompressing:
                _pour(decompressing.read, plain)
        except (zstd.ZstdError, EOFError) as error:
            path = Path(f"/proc/self/fd/{source}").readlink()
            raise Failed(
                "SNAPSHOT_DAMAGED",
                f"The file {path} of a snapshot is damaged: {error}",
                "Use fork_strategy NOW, or another snapshot.",
            ) from error


def _copy_all(source: int, target: int, _status: os.stat_result) -> None:
    """Copy a file without holes: a server that writes into them later might find the storage full."""
    with _opened(source, target) as (original, copy):
        _pour(original.read, copy)


def _pour(read: Callable[[int], bytes], writing: BinaryIO) -> None:
    while data := read(_CHUNK_BYTES):
        check_reserve(writing.fileno())
        writing.write(data)


@contextlib.contextmanager
def _opened(source: int, target: int) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    with open(source, "rb", closefd=False) as reading, open(target, "wb", closefd=False) as writing:
        yield reading, writing


def _copy_without_zeros(source: int, target: int, status: os.stat_result) -> None:
    """Copy an open file except blocks of zeros, which become holes."""
    for offset in range(0, status.st_size, _BLOCK_BYTES):
        block = os.pread(source, _BLOCK_BYTES, offset)
        if block.count(0) < len(block):
            _write_all(target, block, offset)
    os.ftruncate(target, min(status.st_size, os.fstat(source).st_size))


def _write_all(target: int, block: bytes, offset: int) -> None:
    """Write a block whole: on a disk that gets full the first call writes a part, and the next one fails."""
    while block:
        written = os.pwrite(target, block, offset)
        block, offset = block[written:], offset + written


def _share_equal_files(tree: Path, earlier: Path) -> None:
    """Make each packed file that an earlier packed tree has, too, another name of that one."""
    for directory, _, names in os.walk(tree):
        for path in (Path(directory, name) for name in names if name.endswith(_SUFFIX)):
            other, shared = earlier / path.relative_to(tree), path.with_name(f"{path.name}.shared")
            try:
                if not _are_equal(path, other):
                    continue
                shared.hardlink_to(other)
            except OSError:
                continue  # it was removed just now, has another quota, or has too many names
            shared.replace(path)


def _are_equal(path: Path, other: Path) -> bool:
    if _kind(path.lstat()) != _kind(other.lstat()):
        return False
    with path.open("rb") as one, other.open("rb") as two:
        while data := one.read(_CHUNK_BYTES):
            if data != two.read(_CHUNK_BYTES):
                return False
    return True


def _kind(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_mode, status.st_uid, status.st_gid, status.st_size
