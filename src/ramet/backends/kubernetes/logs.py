"""A server's log, as far as Kubernetes keeps it: the lines of the running container."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.errors import Failed, Unavailable
from ramet.model.cursor import decode_cursor, encode_cursor
from ramet.model.logs import LogEntry, LogPage, LogQuery, redacted

_MOST_LINES, _LAST_LINES = 20_000, 200
_SPACES = 4  # of a key: three in the time, one on each side of the session
_MESSAGE_LIMIT = 16 * 1024


class _Record(msgspec.Struct):
    """The fields that are read of a record; statements and details may contain secrets, and are not read."""

    log_time: str
    session_id: str = ""
    session_line_num: str = ""
    error_severity: str = "LOG"
    message: str = ""
    backend_type: str = ""


class _Line(msgspec.Struct):
    """A line of the container: PostgreSQL's have a record, those of the instance manager have none."""

    record: _Record | None = None


_DECODER = msgspec.json.Decoder(_Line)


def read_log(place: Place, server: Server, query: LogQuery) -> LogPage:
    """Return a page of the log, newest first. A cursor names the last entry of the page before."""
    begin = None if query.cursor is None else decode_cursor(query.cursor, _key)
    pod = place.primary_pod(server.service_id)
    if pod is None:
        return LogPage([])
    entries: list[LogEntry] = []
    for key, entry in _entries(place.api.read_log(pod.metadata.name, tail_lines=_MOST_LINES), begin):
        if query.is_past(entry.at):
            break
        if query.wants(entry):
            entries.append(entry)
        if len(entries) == query.limit:
            return LogPage(entries, encode_cursor(key))
    return LogPage(entries)


def last_messages(place: Place, server: Server, processes: Sequence[str]) -> Iterator[str]:
    """Yield what these processes have logged last, newest first; nothing where the log cannot be read."""
    pod = place.primary_pod(server.service_id)
    lines: list[str] = []
    with suppress(Failed, Unavailable):
        lines = [] if pod is None else place.api.read_log(pod.metadata.name, tail_lines=_LAST_LINES)
    for line in reversed(lines):
        with suppress(msgspec.MsgspecError):
            record = _DECODER.decode(line).record
            if record is not None and record.backend_type in processes:
                yield record.message


def _entries(lines: list[str], begin: str | None) -> Iterator[tuple[str, LogEntry]]:
    """Yield the entries with their keys, newest first, after the one with the key `begin`."""
    is_later = begin is not None
    for line in reversed(lines):
        found = _entry(line)
        if found is None:
            continue
        if not is_later:
            yield found
        elif found[0] == begin:
            is_later = False


def _key(text: str) -> str:
    if text.count(" ") != _SPACES:
        raise ValueError(text)
    return text


def _entry(line: str) -> tuple[str, LogEntry] | None:
    try:
        record = _DECODER.decode(line).record
        if record is None:
            return None
        at = datetime.strptime(record.log_time, "%Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)
    except (ValueError, msgspec.MsgspecError):
        return None
    key = f"{record.log_time} {record.session_id} {record.session_line_num}"
    return key, LogEntry(at, record.error_severity, redacted(record.message[:_MESSAGE_LIMIT]))
