"""Read a server's JSON log backwards, page by page.

A cursor is a position in a file, which stays valid because the files only grow at their end. A page reads a limited
number of bytes, so a search without matches returns too, with a cursor to continue from.
"""

import mmap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from ramet.backends.local.host.files import plain
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files
from ramet.model.cursor import decode_cursor, encode_cursor, sequence_number
from ramet.model.logs import LogEntry, LogPage, LogQuery, redacted
from ramet.model.statement_text import without_literals

_PAGE_BYTES = 32 * 1024 * 1024
_MESSAGE_LIMIT = 16 * 1024


class _Line(msgspec.Struct):
    """The fields that are read of a line; statements and details may contain secrets, and are not read."""

    timestamp: str
    error_severity: str = "LOG"
    message: str = ""


_DECODER = msgspec.json.Decoder(_Line)
Place = tuple[str, int]
Read = TypeVar("Read")


def read_log(paths: ServicePaths, query: LogQuery) -> LogPage:
    """Return the entries that match a query, newest first."""
    begin = None if query.cursor is None else decode_cursor(query.cursor, _place)
    entries: list[LogEntry] = []
    scanned = 0
    for place, line in lines_backwards(log_files.files(paths), begin):
        scanned += len(line)
        entry = _entry(line)
        if entry is not None:
            if query.is_past(entry.at):
                return LogPage(entries)
            if query.wants(entry):
                entries.append(entry)
        if len(entries) == query.limit or scanned > _PAGE_BYTES:
            return LogPage(entries, encode_cursor(f"{place[0]}:{place[1]}"))
    return LogPage(entries)


def lines_backwards(files: list[Path], begin: Place | None = None) -> Iterator[tuple[Place, bytes]]:
    """Yield complete lines with their positions, newest first, starting before `begin`."""
    for file in reversed(files):
        if begin is not None and file.name > begin[0]:
            continue
        end = begin[1] if begin is not None and file.name == begin[0] else None
        for offset, line in _lines_of(file, end):
            yield (file.name, offset), line


def _lines_of(file: Path, end: int | None) -> Iterator[tuple[int, bytes]]:
    try:
        with plain(file) as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
            # What follows the last newline is still being written.
            stop = text.rfind(b"\n", 0, len(text) if end is None else end) + 1
            while stop > 0:
                start = text.rfind(b"\n", 0, stop - 1) + 1
                yield start, text[start : stop - 1]
                stop = start
    except (FileNotFoundError, ValueError):  # removed in the meantime, or empty
        return


def _entry(line: bytes) -> LogEntry | None:
    try:
        read = decoded(line, _DECODER)
        at = logged_at(read.timestamp)
    except (ValueError, msgspec.MsgspecError):
        return None
    message = read.message[:_MESSAGE_LIMIT]
    shown = without_literals(message) if message.startswith(log_files.TIMED) else redacted(message)
    return LogEntry(at, read.error_severity, shown)


def logged_at(timestamp: str) -> datetime:
    """Return the time of a line. Raises ValueError where that is damaged."""
    return datetime.strptime(timestamp, "%Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)


def decoded(line: bytes, decoder: msgspec.json.Decoder[Read]) -> Read:
    """Return what a decoder reads of a line. Raises ValueError or MsgspecError where that is damaged."""
    try:
        return decoder.decode(line)
    except UnicodeDecodeError:  # a server writes messages in the encoding of the database
        return decoder.decode(line.decode(errors="replace"))


def _place(text: str) -> Place:
    name, _, offset = text.partition(":")
    return name, sequence_number(offset)
