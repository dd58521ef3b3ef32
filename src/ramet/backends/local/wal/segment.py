"""WAL segments as files: their names, their position in the WAL, and whether a file is the segment of its name.

The check reads page headers only; PostgreSQL verifies the checksum of each record.
"""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import is_of_disk
from ramet.model.snapshot import lsn_number

SEGMENT_BYTES = 16 * 1024 * 1024
PAGE_BYTES = 8192
UNREADABLE = "cannot be read"

_NAME = re.compile(r"[0-9A-F]{24}")
_SEGMENTS_PER_LOG = 0x100000000 // SEGMENT_BYTES

# XLogPageHeaderData and XLogLongPageHeaderData of PostgreSQL 15 to 18, little endian.
_HEADER = struct.Struct("<HHIQIxxxx")
_LONG_HEADER = struct.Struct("<QII")
_LONG_HEADER_FLAG = 0x0002
_RECORD_ALIGNMENT = 8
_SWITCH_BYTES = 24
_BLANK = bytes(_HEADER.size)


@dataclass(frozen=True, order=True)
class Segment:
    """The 16 MiB of WAL with this number on one timeline."""

    timeline: int
    number: int

    @property
    def name(self) -> str:
        """Return the name of its file."""
        log, part = divmod(self.number, _SEGMENTS_PER_LOG)
        return f"{self.timeline:08X}{log:08X}{part:08X}"

    @property
    def start(self) -> int:
        """Return the LSN of its first byte."""
        return self.number * SEGMENT_BYTES

    @property
    def end(self) -> int:
        """Return the LSN after its last byte."""
        return self.start + SEGMENT_BYTES


def segment_named(name: str) -> Segment | None:
    """Return the segment of a file name, or None for other files (history, backup, temporary)."""
    if _NAME.fullmatch(name) is None:
        return None
    timeline, log, part = (int(name[at : at + 8], 16) for at in (0, 8, 16))
    return Segment(timeline, log * _SEGMENTS_PER_LOG + part)


def history_name(timeline: int) -> str:
    """Return the name of the file with the history of a timeline."""
    return f"{timeline:08X}.history"


def segment_at(timeline: int, lsn: str) -> Segment:
    """Return the segment that contains the byte at `lsn`."""
    return Segment(timeline, lsn_number(lsn) // SEGMENT_BYTES)


def segment_before(timeline: int, lsn: str) -> Segment:
    """Return the segment that contains the last byte before `lsn`: the last segment of WAL that ends at `lsn`."""
    return Segment(timeline, (lsn_number(lsn) - 1) // SEGMENT_BYTES)


def segments_between(first: Segment, last: Segment) -> Iterator[Segment]:
    """Yield the segments from `first` to `last`, both included, on the timeline of `first`."""
    for number in range(first.number, last.number + 1):
        yield Segment(first.timeline, number)


def shown_lsn(number: int) -> str:
    """Return an LSN in PostgreSQL's notation."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def record_end(lsn: str, length: int) -> int:
    """Return the LSN after a record of `length` bytes, including the page headers within it."""
    position, missing = lsn_number(lsn), length
    while True:
        room = PAGE_BYTES - position % PAGE_BYTES
        if missing <= room:
            return -(-(position + missing) // _RECORD_ALIGNMENT) * _RECORD_ALIGNMENT
        missing -= room
        position += room
        position += _HEADER.size + (0 if position % SEGMENT_BYTES else _LONG_HEADER.size)


def end_of_records(insert_lsn: str) -> int:
    """Return the LSN before which all records are that were written when PostgreSQL reported this insert position.

    In a segment without records PostgreSQL reports the position behind the header of the segment, which is no record.
    """
    position = lsn_number(insert_lsn)
    behind_header = _HEADER.size + _LONG_HEADER.size
    return position - behind_header if position % SEGMENT_BYTES == behind_header else position


def begins_record(content: bytes) -> bool:
    """Tell whether a record begins in a segment, by its first bytes: it is not all of one that began before.

    False when that is unclear: behind the end of a WAL switch the segment is blank.
    """
    if len(content) < _HEADER.size:
        return False
    rest: int = _HEADER.unpack_from(content)[4]
    if 0 < rest < _SWITCH_BYTES:
        return False
    room = SEGMENT_BYTES // PAGE_BYTES * (PAGE_BYTES - _HEADER.size) - _LONG_HEADER.size
    return rest <= room - _RECORD_ALIGNMENT


def segments_in(directory: Path) -> list[Segment]:
    """Return the segments whose files are in a directory, in order."""
    found = (segment_named(path.name) for path in directory.iterdir())
    return sorted(segment for segment in found if segment is not None)


def fault_of(path: Path, segment: Segment, system_identifier: int, until_lsn: int | None = None) -> str | None:
    """Return what is wrong with the file of a segment, as the predicate of a sentence; None when it is sound.

    Checks size, cluster, timeline, segment size, and the address of each page before `until_lsn` (None: all).
    After a WAL switch the rest of a segment is blank; blank pages followed by written ones are a fault.
    UNREADABLE is that of a file which the disk cannot read.
    """
    count = SEGMENT_BYTES // PAGE_BYTES if until_lsn is None else max(1, -(-(until_lsn - segment.start) // PAGE_BYTES))
    try:
        with files.plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != SEGMENT_BYTES:
                return f"has {size} bytes instead of {SEGMENT_BYTES}"
            pages = file.read(count * PAGE_BYTES)  # not mapped: a thread that waits for a mapping's page stops others
    except OSError as error:
        return unreadable(error)
    return _first_page_fault(pages, segment, system_identifier) or _page_fault(pages, segment, until_lsn)


def unreadable(error: OSError) -> str:
    """Return the fault of a segment that the disk cannot read; raise any other error again."""
    if not is_of_disk(error):
        raise error
    return UNREADABLE


def _first_page_fault(pages: bytes, segment: Segment, system_identifier: int) -> str | None:
    _, info, _, address, _ = _HEADER.unpack_from(pages, 0)
    if not info & _LONG_HEADER_FLAG:
        return "does not begin with the header of a WAL segment"
    identifier, segment_bytes, page_bytes = _LONG_HEADER.unpack_from(pages, _HEADER.size)
    if identifier != system_identifier:
        return f"belongs to the cluster {identifier}, not to {system_identifier}"
    if (segment_bytes, page_bytes) != (SEGMENT_BYTES, PAGE_BYTES):
        return f"has segments of {segment_bytes} and pages of {page_bytes} bytes"
    if address != segment.start:
        return f"contains the WAL from {shown_lsn(address)}, not from {shown_lsn(segment.start)}"
    return None


def _page_fault(pages: bytes, segment: Segment, until_lsn: int | None) -> str | None:
    magic = timeline = blank_at = 0
    for offset in range(0, len(pages), PAGE_BYTES):
        if pages[offset : offset + _HEADER.size] == _BLANK:
            blank_at = blank_at or offset
            continue
        page_magic, _, page_timeline, address, _ = _HEADER.unpack_from(pages, offset)
        lsn = segment.start + offset
        if blank_at:
            return f"has a hole at {shown_lsn(segment.start + blank_at)}"
        if address != lsn:
            return f"has at {shown_lsn(lsn)} the page of {shown_lsn(address)}"
        if not timeline <= page_timeline <= segment.timeline:
            return f"has at {shown_lsn(lsn)} a page of timeline {page_timeline}"
        if page_magic != (magic or page_magic):
            return f"has at {shown_lsn(lsn)} a page of another PostgreSQL version"
        magic, timeline = page_magic, page_timeline
    if blank_at and until_lsn is not None:
        return f"ends at {shown_lsn(segment.start + blank_at)}, before {shown_lsn(until_lsn)}"
    return None
