"""The end of a WAL segment that has no records: PostgreSQL has filled it, and it needs no blocks."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.volumes.syscalls import punch_hole
from ramet.backends.local.wal.segment import PAGE_BYTES, SEGMENT_BYTES

_PIECE = 64 * 1024
_BLANK = bytes(_PIECE)


def free(path: Path, originals: Iterable[Path] = ()) -> None:
    """Free the blocks of the zeros behind a WAL switch: the segment reads as before. May run twice.

    Of a copy the first of the `originals` that exists is read, because its pages are cached. A file that has other
    names stays as it is, and so does one whose file system frees no blocks within files.
    """
    with suppress(OSError):
        _free_from(path, _blank_from(next((one for one in originals if files.is_there(one)), path)))


def free_behind(path: Path, last_record: int) -> None:
    """Free what is behind the last record of a segment, the checkpoint of a shutdown that begins at a byte of it.

    That reads as zeros then. PostgreSQL 15 fills the first segment of a timeline with copies of a page (XLogFileCopy).
    """
    with suppress(OSError):
        _free_from(path, -(-(last_record + PAGE_BYTES) // _PIECE) * _PIECE)


def _blank_from(path: Path) -> int:
    """Return where the zeros at the end of a segment begin, in whole pieces."""
    with files.plain(path) as file:
        begin = os.fstat(file.fileno()).st_size
        if begin != SEGMENT_BYTES:
            return SEGMENT_BYTES
        while begin and os.pread(file.fileno(), _PIECE, begin - _PIECE) == _BLANK:
            begin -= _PIECE
        return begin


def _free_from(path: Path, begin: int) -> None:
    if begin < SEGMENT_BYTES:
        with files.changed(path) as file:
            punch_hole(file.fileno(), begin, SEGMENT_BYTES - begin)
