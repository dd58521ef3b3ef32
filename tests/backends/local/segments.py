"""WAL segments made by hand for tests: headers as PostgreSQL writes them, and no records."""

import struct
from pathlib import Path

from ramet.backends.local.wal.segment import PAGE_BYTES, SEGMENT_BYTES, Segment

IDENTIFIER = 7_710_575_692_803_751_549
MAGIC = 0xD110


def write_segment(directory: Path, segment: Segment, *, pages: int = 4, identifier: int = IDENTIFIER) -> Path:
    """Write a segment whose first `pages` pages have headers; the rest is blank, as behind a switch."""
    path = directory / segment.name
    with path.open("wb") as file:
        file.truncate(SEGMENT_BYTES)
        for number in range(pages):
            address = segment.start + number * PAGE_BYTES
            file.seek(number * PAGE_BYTES)
            file.write(struct.pack("<HHIQIxxxx", MAGIC, 0 if number else 2, segment.timeline, address, 0))
            if number == 0:
                file.write(struct.pack("<QII", identifier, SEGMENT_BYTES, PAGE_BYTES))
    return path


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Put bytes into a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)
